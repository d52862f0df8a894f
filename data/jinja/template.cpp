#include "tapegrad/data/jinja/internal/template.h"

#include <limits>

#include "tapegrad/data/jinja/syntax/internal/parser.h"

namespace tapegrad::data::jinja {

Template::Template(std::string_view source) : parsed_(std::make_unique<Parsed>(parse(source))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Template::Rendered Template::render(const std::vector<std::pair<std::string, Value>>& variables,
                                    const RenderLimits& limits) const {
  Run run(limits);
  Frame::Whole whole;
  const Frame frame{run, make_counted<Scope>(), &whole.text, &whole};
  for (const auto& [name, value] : variables) frame.scope->set(name, value);
  // Jinja's own variables of a template begin in a scope inside that of the given ones.
  parsed_->body.execute(frame.inside());
  if (!parsed_->generations_are_placed) whole.generated.clear();
  return {std::string(std::string_view(whole.text)),
          {whole.generated.begin(), whole.generated.end()}};
}

bool Template::marks_generations() const {
  return parsed_->marks_generations && parsed_->generations_are_placed;
}
bool Template::reads(std::string_view variable) const {
  return parsed_->names.find(variable) != parsed_->names.end();
}

Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        raise("an integer needs more than 64 bits");
      }
      return Value(static_cast<std::int64_t>(number));
    }
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(json.get<std::string>());
    case Json::value_t::array: {
      Values items;
      for (const Json& item : json) items.push_back(value_of(item));
      return list_of(std::move(items));
    }
    case Json::value_t::object: {
      auto dict = make_counted<Dict>();
      for (const auto& [name, member] : json.items()) {  // names are apart: see parse_json()
        Value value = value_of(member);
        dict->extent.cover(value);
        dict->members.emplace_back(Value(name), std::move(value));
      }
      return Value(DictRef(std::move(dict)));
    }
    default:
      return {};
  }
}

}  // namespace tapegrad::data::jinja
