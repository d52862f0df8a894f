// Text from a model that train-gpt has made: as a stream, and for several prompts.
//
//   generate RUN_FOLDER [PROMPT]

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <cstdio>

int main(int argc, char** argv) {
  using namespace tapegrad;
  if (argc < 2) {
    fmt::print(stderr, "usage: generate RUN_FOLDER [PROMPT]\n");
    return 2;
  }
  const std::string prompt = argc > 2 ? argv[2] : "";
  try {
    const run::TextModel model = run::load(argv[1]);
    fmt::print("{}\n", model.stream(prompt, {.max_new_tokens = 50}).text());

    for (const std::string& piece : model.stream(prompt, {.max_new_tokens = 50, .top_k = 10}, 1)) {
      fmt::print("{}", piece);
      std::fflush(stdout);
    }

    for (const std::string& text : model.generate({prompt, prompt + prompt}, {.greedy = true})) {
      fmt::print("\n{} bytes more", text.size());
    }
    fmt::print("\n");
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
