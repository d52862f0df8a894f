#pragma once

#include "tapegrad/apps/seq2seq/seq2seq_program.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"

// The way from the arguments of a training program to its plan, in this process: nothing is
// started, and no text is read.

template <class Program>
auto parsed_by(const Program& program, const std::string& name, const Args& args) {
  std::vector<const char*> argv = {name.c_str()};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  return tapegrad::cli::parse(program, {name, static_cast<int>(argv.size()), argv.data()}).value();
}

inline tapegrad::gpt::ParsedCall parsed_call(const Args& args) {
  return parsed_by(tapegrad::gpt::training(), "train-gpt", args);
}
inline tapegrad::gpt::Plan parsed(const Args& args) { return parsed_call(args).plan; }

inline tapegrad::seq2seq::Options parsed_pairs(const Args& args) {
  return parsed_by(tapegrad::seq2seq::training(), "train-seq2seq", args).plan;
}

// Checks that such a call fails as main() would tell it: with that exit code, and a message that
// has the text in it.
inline void check_fails(const std::function<void()>& call, int code, const std::string& text) {
  const tapegrad::cli::Outcome outcome = tapegrad::cli::run_body([&] {
    call();
    return 0;
  });
  CHECK(outcome.code == code);
  CHECK_THAT(outcome.error, ContainsSubstring(text));
}

// Arguments from which no plan comes.
inline void check_unparsed(const Args& args, int code, const std::string& text) {
  check_fails([&] { parsed(args); }, code, text);
}
inline void check_unparsed_pairs(const Args& args, int code, const std::string& text) {
  check_fails([&] { parsed_pairs(args); }, code, text);
}
