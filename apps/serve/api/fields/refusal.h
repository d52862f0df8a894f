#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tapegrad/apps/http/message.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::serve {

// Why a request is not answered, as OpenAI's interface says it.
struct Refusal {
  int status = 400;
  std::string message;
  std::string param = {};        // the field: "messages[0].content"; "": none
  std::string code = {};         // for programs: "context_length_exceeded"; "": none
  std::int64_t retry_after = 0;  // seconds; 0: nothing is said of it

  // {"error": {"message": …, "type": …, "param": …, "code": …}}: each cut to what a message quotes.
  Json json() const;
  http::Response response() const;
};

// Thrown where a request is read.
class Refused : public std::runtime_error {
 public:
  explicit Refused(Refusal refusal)
      : std::runtime_error(refusal.message), why(std::move(refusal)) {}
  const Refusal why;
};

// A server that ends answers no more.
Refusal server_ends();
// The most that a server gives to one answer, the wait for its turn included, is over.
Refusal too_late(std::chrono::seconds most);
// The answer to whoever asked, after an exception: the words of a Refused; of others, no word.
Refusal refusal_of(const std::exception& error);

}  // namespace tapegrad::serve
