#pragma once

#include "tapegrad/apps/serve/api/completions.h"
#include "tapegrad/apps/serve/served_model.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::serve {

// The answers to requests that take no model. Refused for what is not understood.
Json tokenize(const Json& body, const Asked& asked);        // POST /tokenize
Json detokenize(const Json& body, const Asked& asked);      // POST /detokenize
Json apply_template(const Json& body, const Asked& asked);  // POST /apply-template
Json list_models(const ServedModel& model);                 // GET /v1/models
// GET /v1/models/NAME
Json describe_model(const ServedModel& model, const NamedModel& named);

}  // namespace tapegrad::serve
