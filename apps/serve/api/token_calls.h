#pragma once

#include "tapegrad/apps/serve/served_model.h"
#include "tapegrad/base/json_file.h"

namespace tapegrad::serve {

// The answers to requests that take no model. Refused for what is not understood.
Json tokenize(const Json& body, const ServedModel& model);        // POST /tokenize
Json detokenize(const Json& body, const ServedModel& model);      // POST /detokenize
Json apply_template(const Json& body, const ServedModel& model);  // POST /apply-template
Json list_models(const ServedModel& model);                       // GET /v1/models
// GET /v1/models/NAME
Json describe_model(const ServedModel& model, const NamedModel& named);

}  // namespace tapegrad::serve
