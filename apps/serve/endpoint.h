#pragma once

#include <memory>
#include <string_view>

#include "tapegrad/apps/serve/endpoints.h"

namespace tapegrad::serve {

// An endpoint has one of these. What has a body is read by a reading thread, since a template or a
// schema may take long; what has none is answered at once by the listener's.
struct Endpoints::Endpoint {
  std::string_view method, path;
  bool open = false;  // to those without a key
  http::Response (*now)(Endpoints&, const http::Request&) = nullptr;
  // What the models are; read as the others if that reads files.
  Json (*list)(ModelSet&, std::string_view path) = nullptr;
  Json (*call)(const Json&, const Asked&) = nullptr;
  std::unique_ptr<Job> (*job)(const Json&, const Asked&) = nullptr;  // for the engine
  bool renders = false;                                              // the model's template
};

}  // namespace tapegrad::serve
