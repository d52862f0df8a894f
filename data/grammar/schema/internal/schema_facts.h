#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/grammar/internal/byte_terms.h"
#include "tapegrad/data/grammar/internal/number_texts.h"

namespace tapegrad::data {

// A schema within a schema, and where it stands, as a JSON pointer: "#/properties/name".
struct SchemaPlace {
  const Json* schema;
  std::string path;
  bool without_unions = false;  // its anyOf and oneOf are asked for elsewhere
  bool arguments = false;       // the value is the arguments of a call: see JsonTexts
};
// A value must fit all of these; any value fits none.
using SchemaPlaces = std::vector<SchemaPlace>;

// Types as bits. A number is whole or has a fraction.
enum JsonType : unsigned {
  kNull = 1,
  kBoolean = 2,
  kWhole = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAnyType = 127,
};
unsigned type_of(const Json& value);

// The demands of several schemas on one value, keyword by keyword.
struct SchemaFacts {
  struct Member {
    std::string name;
    SchemaPlaces value;
    bool required = false;
  };

  std::string path;  // of the first schema, for messages
  unsigned types = kAnyType;
  unsigned hinted = 0;                           // types that keywords speak of
  std::optional<std::vector<Json>> values = {};  // enum, const
  bool plain = true;                             // nothing but types and values
  bool arguments = false;                        // see SchemaPlace
  std::optional<NumberBound> least = {}, most = {};
  std::optional<double> multiple = {};
  std::uint32_t min_length = 0, max_length = ByteTerms::kEndless;
  std::vector<std::string> patterns = {}, formats = {};
  std::vector<SchemaPlaces> prefix = {};
  SchemaPlaces items = {};  // behind the prefix
  std::uint32_t min_items = 0, max_items = ByteTerms::kEndless;
  bool unique = false;
  std::vector<Member> members = {};
  bool has_properties = false;                  // so that others must be asked for
  std::optional<SchemaPlaces> additional = {};  // of names that are not among the members
  std::uint32_t min_properties = 0, max_properties = ByteTerms::kEndless;
  // Of each, one must fit as well. Of `exclusive` ones no two may.
  struct Union {
    SchemaPlaces branches;
    bool exclusive;
  };
  std::vector<Union> unions = {};

  std::vector<std::string> references = {};  // that were followed

  // A schema without "type" is meant for the types that its keywords speak of: texts are made of
  // these, though values of any other type would fit it, too.
  unsigned made_types() const {
    return types == kAnyType && !values && hinted != 0 ? hinted : types;
  }
};

// Error, with path and keyword, for what is broken or not supported.
class SchemaReader {
 public:
  explicit SchemaReader(const Json& root) : root_(root) {}
  SchemaFacts facts_of(const SchemaPlaces& places);

 private:
  void add(const SchemaPlace& place, SchemaFacts& facts, int depth);
  SchemaPlace resolve(const std::string& reference, const std::string& path) const;

  const Json& root_;
  std::size_t work_ = 0;
};

// True if no value can fit both. False if that cannot be seen.
bool exclude_each_other(SchemaReader& reader, const SchemaPlaces& a, const SchemaPlaces& b);

[[noreturn]] void refuse_schema(const std::string& path, std::string_view keyword,
                                std::string_view why);

}  // namespace tapegrad::data
