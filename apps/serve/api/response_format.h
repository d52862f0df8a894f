#pragma once

#include "tapegrad/apps/serve/api/fields.h"
#include "tapegrad/apps/serve/served_model.h"

namespace tapegrad::serve {

// The field "response_format": any text, a JSON object, or what a JSON schema allows. Texts are
// then JSON that is whole, unless max_tokens or a stop cuts them.
void read_response_format(Fields& fields, const ServedModel& model, nn::GenerateOptions& options);

}  // namespace tapegrad::serve
