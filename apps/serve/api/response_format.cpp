#include "tapegrad/apps/serve/api/response_format.h"

namespace tapegrad::serve {
namespace {

// {"name": …, "schema": {…}}, whose other members change nothing of what texts may be: those that
// are made fit the schema, whether "strict" asks for that or not.
std::shared_ptr<const nn::TokenMask> mask_of_schema(Fields& format, const ServedModel& model) {
  const Json* member = format.find("json_schema");
  if (member == nullptr) {
    format.refuse("json_schema", "'response_format.json_schema' is missing",
                  "missing_required_parameter");
  }
  Fields fields = format.inside(*member, kInSchema, format.path_of("json_schema"));
  const Json* schema = fields.find("schema");
  if (schema == nullptr) {
    fields.refuse("schema", fmt::format("'{}' is missing", fields.path_of("schema")),
                  "missing_required_parameter");
  }
  fields.end();
  try {
    return model.json_masks.of_schema(json_text(*schema));
  } catch (const Error& error) {  // a keyword that is not supported, say
    fields.refuse("schema", error.what());
  }
}

}  // namespace

void read_response_format(Fields& fields, const ServedModel& model, nn::GenerateOptions& options) {
  const Json* found = fields.find("response_format");
  if (found == nullptr) return;
  Fields format = fields.inside(*found, kInFormat, "response_format");
  std::string type;
  format.choice("type", type, {"text", "json_object", "json_schema"});
  if (type.empty()) {
    format.refuse("type", "'response_format.type' is missing", "missing_required_parameter");
  }
  if (type == "json_object") options.mask = model.json_masks.of_object();
  if (type == "json_schema") {
    options.mask = mask_of_schema(format, model);
  } else {
    format.fixed("json_schema", Json::array(), "the type 'json_schema' has a schema");
  }
  format.end();
}

}  // namespace tapegrad::serve
