// Answers: a GPT learns from conversations to spell words, and to reverse them.

#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/data/packed_batches.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "word_list.h"

using namespace tapegrad;

namespace {

using Conversations = std::vector<data::Conversation>;
constexpr std::string_view kSpecial[] = {"<|user|>", "<|assistant|>", "<|end|>"};
// A token for each of the 256 bytes, <|endoftext|>, and those of the template.
const data::Tokenizer tokenizer = data::Tokenizer::train_bpe("", 257).with_special(kSpecial);
const data::Token end_token = tokenizer.encode("<|end|>", true)[0];
const data::ChatTemplate chat_template(
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}");
const nn::DecoderConfig config{
    .vocab_size = 260, .block_size = 72, .n_layer = 2, .n_head = 2, .n_embd = 32};

data::Conversation conversation(const std::string& verb, std::string word) {
  const std::string question = verb + " " + word + ".";
  if (verb == "Reverse") word.assign(word.rbegin(), word.rend());
  return {{{"user", question}, {"assistant", fmt::format("{}", fmt::join(word, "-"))}}};
}

Conversations conversations(std::span<const std::string> words) {
  Conversations all;
  for (const std::string& word : words) {
    for (const char* verb : {"Spell", "Reverse"}) all.push_back(conversation(verb, word));
  }
  return all;
}

data::PackedBatches packed(const Conversations& all, data::ChatLoss loss, std::int64_t rows,
                           bool shuffle = true) {
  auto set = std::make_shared<data::ChatSet>();
  for (const auto& one : all) set->add(data::chat_tokens(one, chat_template, tokenizer));
  set->files = {{set->size(), 1}};
  return {set,
          {.batch_size = rows, .block_size = config.block_size, .loss = loss, .shuffle = shuffle},
          Rng(1)};
}

Tensor loss_of(const nn::GPT& gpt, const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  const Tensor starts = Tensor::from(batch.document_starts, shape);
  return gpt.loss({Tensor::from(batch.inputs, shape), starts}, Tensor::from(batch.targets, shape));
}

std::string answer(const nn::GPT& gpt, const data::Conversation& asked) {
  const std::string prompt = chat_template.render({{asked.messages[0]}}, true).text;
  return tokenizer.decode(
      nn::stream(gpt, tokenizer.encode(prompt, true),
                 {.max_new_tokens = 12, .greedy = true, .stop_tokens = {end_token}})
          .tokens());
}

// A conversation, with a mark under each token that counts in the loss, and the places in a row at
// which conversations begin.
void show(const Conversations& all) {
  const data::ChatTokens chat = data::chat_tokens(all[0], chat_template, tokenizer);
  const auto [begin, end] = chat.answers[0];
  std::string marks;
  for (std::int64_t i = 0; i < std::ssize(chat.tokens); ++i) {
    const std::string text = tokenizer.decode(std::array{chat.tokens[static_cast<std::size_t>(i)]});
    fmt::print("{}", text);
    marks += std::string(text.size(), i >= begin && i < end ? '^' : ' ');
  }
  fmt::print("\n{}\n{} of {} tokens count\n\n", marks, end - begin, chat.tokens.size());
  const data::Batch row = packed(all, data::ChatLoss::answers, 1).next();
  fmt::print("a row of {} tokens", row.T);
  for (std::size_t t = 0; t < row.inputs.size(); ++t) {
    if (row.document_starts[t] == static_cast<std::int32_t>(t)) fmt::print("\n{:2} ", t);
    fmt::print("{}", tokenizer.decode(std::array{row.inputs[t]}));
  }
  fmt::print("\n\n");
}

// A row of the table: the loss of the exam's answers, how many are right, and two answers.
void report(int step, const nn::GPT& gpt, const Conversations& exam) {
  // A batch of all rows.
  data::PackedBatches batches = packed(exam, data::ChatLoss::answers, 100, /*shuffle=*/false);
  int right = 0;
  for (const auto& asked : exam) right += answer(gpt, asked) == asked.messages[1].content;
  fmt::print("{:4} {:7.3f} {:5}   {:<12} {}\n", step, loss_of(gpt, batches.next()).item(), right,
             answer(gpt, exam[0]), answer(gpt, exam[1]));
}

nn::GPT learn(const Conversations& all, const Conversations& exam, data::ChatLoss loss) {
  Rng rng(123);
  const nn::Params params(rng, DType::f64);
  const nn::GPT gpt(params, config);
  nn::init_gpt2(gpt, params, rng);
  optim::AdamW optimizer(params.parameters());
  data::PackedBatches batches = packed(all, loss, 8);
  for (int step = 1; step <= 300; ++step) {
    Tape tape;
    tape.backward(loss_of(gpt, batches.next()));
    optimizer.step(0.005);
    optimizer.zero_grad();
    if (step % 100 == 0) report(step, gpt, exam);
  }
  return gpt;
}

int lesson() {
  Rng rng(123);
  std::vector<std::string> words = tutorial::WordList::of_words(rng).words;
  std::erase_if(words, [](const std::string& word) { return word.size() != 4; });
  const Conversations exam = conversations(std::span(words).first(50));
  const Conversations all = conversations(std::span(words).subspan(50));
  show(all);
  fmt::print("step    loss right   {:<12} {}\n", exam[0].messages[0].content,
             exam[1].messages[0].content);
  const nn::GPT gpt = learn(all, exam, data::ChatLoss::answers);
  fmt::print("all tokens count\n");
  learn(all, exam, data::ChatLoss::all);
  fmt::print("\n");
  for (const auto& asked : conversations(std::array<std::string, 2>{"frog", "horse"})) {
    fmt::print("{:<16} {}\n", asked.messages[0].content, answer(gpt, asked));
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
