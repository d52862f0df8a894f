#pragma once

#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/apps/serve/served_model.h"

namespace tapegrad::serve {

// The field "response_format": any text, a JSON object, or what a JSON schema allows. Texts are
// then JSON that is whole, unless max_tokens or a stop cuts them.
void read_response_format(Fields& fields, const ServedModel& model, nn::GenerateOptions& options);
// The same as responses have it, the member "format" of "text": what a schema says beside its type.
void read_text_format(Fields& text, const ServedModel& model, nn::GenerateOptions& options);

}  // namespace tapegrad::serve
