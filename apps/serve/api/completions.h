#pragma once

#include <functional>
#include <memory>

#include "tapegrad/apps/serve/text_job.h"

namespace tapegrad::serve {

// The parts of the server that requests need.
struct Asked {
  const ServedModel& model;
  std::string id;          // of the answer, but for its beginning
  std::uint64_t new_seed;  // for a request without one
  std::function<std::unique_ptr<Reply>()> reply;
  std::shared_ptr<IgnoredFields> ignored;
  // Called now and then by what takes long: Refused if the request has no more time, or nobody
  // waits for it.
  std::function<void()> look;
};

// POST /v1/completions: the texts that continue one or several prompts. Refused for what is not
// understood.
std::unique_ptr<Job> completions(const Json& body, const Asked& asked);

}  // namespace tapegrad::serve
