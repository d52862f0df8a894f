#include "tapegrad/apps/serve/api/response_format.h"

namespace tapegrad::serve {
namespace {

// {"name": …, "schema": {…}}, whose other members change nothing of what texts may be: those that
// are made fit the schema, whether "strict" asks for that or not.
std::shared_ptr<const nn::TokenMask> mask_of_schema(Fields& fields, const ServedModel& model) {
  const Json* schema = fields.find("schema");
  if (schema == nullptr) {
    fields.refuse_missing("schema");
  }
  try {
    return model.json_masks.of_schema(json_text(*schema));
  } catch (const Error& error) {  // a keyword that is not supported, say
    fields.refuse("schema", error.what());
  }
}

std::shared_ptr<const nn::TokenMask> mask_of_member(Fields& format, const ServedModel& model) {
  const Json* member = format.find("json_schema");
  if (member == nullptr) {
    format.refuse_missing("json_schema");
  }
  Fields fields = format.inside(*member, kInSchema, format.path_of("json_schema"));
  auto mask = mask_of_schema(fields, model);
  fields.end();
  return mask;
}

std::string type_of_format(Fields& format) {
  std::string type;
  format.choice("type", type, {"text", "json_object", "json_schema"});
  if (type.empty()) {
    format.refuse_missing("type");
  }
  return type;
}

// Reads a format whose schema is in one of its members.
using MaskOf = std::shared_ptr<const nn::TokenMask>(Fields&, const ServedModel&);
void read_format(Fields format, const char* member, MaskOf* mask_of, const ServedModel& model,
                 nn::GenerateOptions& options) {
  const std::string type = type_of_format(format);
  if (type == "json_object") options.mask = model.json_masks.of_object();
  if (type == "json_schema") {
    options.mask = mask_of(format, model);
  } else {
    format.fixed(member, Json::array(), "the type 'json_schema' has a schema");
  }
  format.end();
}

}  // namespace

void read_response_format(Fields& fields, const ServedModel& model, nn::GenerateOptions& options) {
  const Json* found = fields.find("response_format");
  if (found == nullptr) return;
  read_format(fields.inside(*found, kInFormat, "response_format"), "json_schema", mask_of_member,
              model, options);
}

void read_text_format(Fields& text, const ServedModel& model, nn::GenerateOptions& options) {
  const Json* found = text.find("format");
  if (found == nullptr) return;
  read_format(text.inside(*found, kInTextFormat, text.path_of("format")), "schema", mask_of_schema,
              model, options);
}

}  // namespace tapegrad::serve
