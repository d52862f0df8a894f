#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// A struct of options names each of its members once, in a table:
//
//   struct PointConfig {
//     int n_layer = 2;
//     template <class Self, class Table>
//     static void describe(Self& c, Table& t) {
//       t("n_layer", c.n_layer, "hidden layers", {.least = 1, .most = 64});
//     }
//   };
//
// The command line (--n-layer), config.json ("n_layer"), the comparison on resume, the help and the
// errors all go by that table and by nothing else. A member is a bool, int, int64_t, uint64_t,
// double, std::string, std::vector<std::string>, an enum with names (see names_of), or an optional
// of one of these. `Table` is always OptionTable, so that a table is compiled once for all its
// uses.

// A struct whose members are described structs themselves names them as sections:
//
//   t.section("model", "Model", Lasting::model, o.model);
//
// where "model" is the section's name in config.json and "Model" its heading in the help.

// How long the value of an option lasts.
enum class Lasting {
  call,   // of this call of a program only
  run,    // kept in config.json; may be changed when the run is resumed
  model,  // kept in config.json; cannot be changed
};

// Rules for a member, beside its type.
struct Rule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool below_most = false;              // `most` itself is not allowed
  std::string_view value = {};          // its value in help [by type: N, X, TEXT]
  bool option = true;                   // false: derived, so that the command line does not have it
  std::optional<Lasting> lasting = {};  // of this member alone [its section's]
  bool newer = false;  // files that are older than the member lack it, and keep its default
};

// The names of an enum's values, in order, the first one being 0. An enum with a table member
// defines an overload beside itself: `std::span<const std::string_view> names_of(Activation)`,
// whose argument is ignored.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  { names_of(e) } -> std::convertible_to<std::span<const std::string_view>>;
};

template <NamedEnum E>
std::string_view name_of_enum(E value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

// The value of that name; nothing if there is none.
template <NamedEnum E>
std::optional<E> enum_of(std::string_view name) {
  const auto names = names_of(E{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// The value of a member, whatever its type: an enum's is its name, and an optional without a value
// is a monostate.
using OptionValue = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double,
                                 std::string, std::vector<std::string>>;

// A member of a described struct, whatever its type: tables are compiled once for every use.
class Member {
 public:
  enum class Type { boolean, whole32, whole64, unsigned64, real, text, texts, choice };

  Member(bool& at) : Member(&at, Type::boolean, false) {}
  Member(int& at) : Member(&at, Type::whole32, false) {}
  Member(std::int64_t& at) : Member(&at, Type::whole64, false) {}
  Member(std::uint64_t& at) : Member(&at, Type::unsigned64, false) {}
  Member(double& at) : Member(&at, Type::real, false) {}
  Member(std::string& at) : Member(&at, Type::text, false) {}
  Member(std::vector<std::string>& at) : Member(&at, Type::texts, false) {}
  Member(std::optional<bool>& at) : Member(&at, Type::boolean, true) {}
  Member(std::optional<int>& at) : Member(&at, Type::whole32, true) {}
  Member(std::optional<std::int64_t>& at) : Member(&at, Type::whole64, true) {}
  Member(std::optional<std::uint64_t>& at) : Member(&at, Type::unsigned64, true) {}
  Member(std::optional<double>& at) : Member(&at, Type::real, true) {}
  Member(std::optional<std::string>& at) : Member(&at, Type::text, true) {}
  template <NamedEnum E>
  Member(E& at) : Member(&at, Type::choice, false) {
    names_ = names_of(E{});
    index_ = [](const void* e) { return static_cast<int>(*static_cast<const E*>(e)); };
    set_index_ = [](void* e, int index) { *static_cast<E*>(e) = static_cast<E>(index); };
  }
  template <NamedEnum E>
  Member(std::optional<E>& at) : Member(&at, Type::choice, true) {
    using Optional = std::optional<E>;
    names_ = names_of(E{});
    index_ = [](const void* e) {
      const Optional& value = *static_cast<const Optional*>(e);
      return value ? static_cast<int>(*value) : -1;
    };
    set_index_ = [](void* e, int index) {
      Optional& value = *static_cast<Optional*>(e);
      value.reset();
      if (index >= 0) value = static_cast<E>(index);
    };
  }

  Type type() const { return type_; }
  bool is_optional() const { return optional_; }
  // The names of a choice; of other types, none.
  std::span<const std::string_view> names() const { return names_; }

  OptionValue value() const;
  // `value` is of this member's type: a whole number fits into it, a choice is one of its names. An
  // Error otherwise.
  void set(const OptionValue& value) const;

 private:
  Member(void* at, Type type, bool is_optional) : at_(at), type_(type), optional_(is_optional) {}

  void* at_;
  Type type_;
  bool optional_;
  std::span<const std::string_view> names_ = {};
  int (*index_)(const void*) = nullptr;  // of a choice; -1: none
  void (*set_index_)(void*, int) = nullptr;
};

// A walk through a table, which is called once for each member, in order.
class OptionTable {
 public:
  virtual ~OptionTable() = default;

  void operator()(std::string_view name, const Member& member, std::string_view help,
                  const Rule& rule = {}) {
    visit(name, member, help, rule);
  }
  template <class Part>
  void section(std::string_view name, std::string_view heading, Lasting lasting, Part& part) {
    if (!begin_section(name, heading, lasting)) return;
    Part::describe(part, *this);
    end_section();
  }

 protected:
  virtual void visit(std::string_view name, const Member& member, std::string_view help,
                     const Rule& rule) = 0;
  // False: the section is passed over.
  virtual bool begin_section(std::string_view, std::string_view, Lasting) { return true; }
  virtual void end_section() {}
};

// Any described struct, as an argument of functions that need its table alone. The struct must live
// as long as this. One that is const is only read.
class OptionSchema {
 public:
  template <class Options>
  requires(!std::is_same_v<std::remove_const_t<Options>, OptionSchema>)
      OptionSchema(Options& options)
      : at_(const_cast<std::remove_const_t<Options>*>(&options)),
        describe_([](void* at, OptionTable& table) {
          using Struct = std::remove_const_t<Options>;
          Struct::describe(*static_cast<Struct*>(at), table);
        }) {}
  void describe(OptionTable& table) const { describe_(at_, table); }

 private:
  void* at_;
  void (*describe_)(void*, OptionTable&);
};

// Error, naming the member and its value, unless the value keeps its rule.
void check_rule(std::string_view name, const OptionValue& value, const Rule& rule);

// Checks every member of a described struct against its rule.
void check_rules(OptionSchema config);

}  // namespace tapegrad
