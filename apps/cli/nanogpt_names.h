#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tapegrad::cli {

// Our option for one of nanoGPT that has another name here, or values with other names.
struct NanoGPTOption {
  std::string option;  // "--schedule"; empty: there is nothing of the kind here
  std::string value;
  std::string note;  // the difference, for people; may be empty
};

// `name` is as on the command line, "--decay-lr". Nothing for a name that only we have, or that
// means the same in both. UsageError for a value that nothing here stands for, and where a name of
// nanoGPT has none.
std::optional<NanoGPTOption> of_nanogpt(const std::string& name,
                                        const std::optional<std::string>& value);

// Options of llama.cpp, nanoGPT and transformers, "-t", and those that may be meant here.
std::vector<std::string> meant_by(const std::string& name);

// True if the value of a nanoGPT option has no meaning here: wandb_run_name.
bool ignored_of_nanogpt(const std::string& name);

}  // namespace tapegrad::cli
