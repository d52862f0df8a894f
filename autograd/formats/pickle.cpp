#include "tapegrad/autograd/formats/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMostValues = 2'000'000;

constexpr std::string_view kOrderedDict = "OrderedDict", kRebuildTensor = "_rebuild_tensor_v2";

struct Name {
  std::string_view module, name;
};
constexpr Name kCalls[] = {{"collections", kOrderedDict}, {"torch._utils", kRebuildTensor}};

// Runs the program of a pickle. All values lie in one place, in order of their making, so that
// nothing is freed recursively. Every instruction has at least one byte and makes at most one
// value.
class Unpickler {
 public:
  Unpickler(std::string_view bytes, std::deque<PickleValue>& values)
      : bytes_(bytes), values_(values) {}

  const PickleValue* run() {
    check(byte() == 0x80, "it is not a pickle of protocol 2 to 5");
    const unsigned protocol = byte();
    check(protocol >= 2 && protocol <= 5, "pickles of protocol {} are not supported, only 2 to 5",
          protocol);
    for (;;) {
      const unsigned op = byte();
      if (op == '.') break;
      check(plain(op) || text(op) || container(op) || other(op),
            "the instruction 0x{:02x} at byte {} is not supported", op, at_ - 1);
    }
    check(stack_.size() == 1 && marks_.empty() && at_ == bytes_.size(),
          "the pickle does not end with one value at byte {}", at_);
    check(stack_.front()->kind != kName, "the pickle is a name alone");
    return stack_.front();
  }

 private:
  // Names live among the values while the program runs.
  static constexpr Kind kName = static_cast<Kind>(-1);

  std::string_view take(std::uint64_t n) {
    check(n <= bytes_.size() - at_, "the pickle ends within an instruction, at byte {}", at_);
    const std::string_view taken = bytes_.substr(at_, n);
    at_ += n;
    return taken;
  }
  template <class T>
  T little() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  unsigned byte() { return little<std::uint8_t>(); }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    check(end != bytes_.npos, "the pickle ends within a name, at byte {}", at_);
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  void push(PickleValue value) {
    check(values_.size() < kMostValues, "the pickle has more than {} values", +kMostValues);
    stack_.push_back(&values_.emplace_back(std::move(value)));
  }
  // Of those above the last mark.
  void need(std::size_t n) const {
    check(stack_.size() >= n + (marks_.empty() ? 0 : marks_.back()),
          "the instruction at byte {} needs a value that is not there", at_ - 1);
  }
  PickleValue* pop() {
    need(1);
    PickleValue* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top(Kind kind) {
    need(1);
    check(stack_.back()->kind == kind, "the instruction at byte {} needs {}, not {}", at_ - 1,
          name_of(kind), name_of(stack_.back()->kind));
    return *stack_.back();
  }
  // Takes the values above the last mark, and the mark.
  std::vector<const PickleValue*> pop_marked() {
    check(!marks_.empty(), "the instruction at byte {} needs a mark", at_ - 1);
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_integer(std::int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_text(Kind kind, std::string_view text) { push({.kind = kind, .text = text}); }

  bool plain(unsigned op) {
    switch (op) {
      case 'N':
        push({});
        return true;
      case 0x88:
      case 0x89:
        push({.kind = Kind::boolean, .integer = op == 0x88});
        return true;
      case 'J':
        push_integer(little<std::int32_t>());
        return true;
      case 'K':
        push_integer(byte());
        return true;
      case 'M':
        push_integer(little<std::uint16_t>());
        return true;
      case 0x8a:
        push_integer(long_integer());
        return true;
      case 'G': {
        std::array<char, 8> big{};
        const std::string_view bytes = take(8);
        std::reverse_copy(bytes.begin(), bytes.end(), big.begin());
        push({.kind = Kind::number, .number = std::bit_cast<double>(big)});
        return true;
      }
      default:
        return false;
    }
  }

  // Two's complement of few bytes.
  std::int64_t long_integer() {
    const std::string_view bytes = take(byte());
    check(bytes.size() <= 8, "an int of more than 64 bits is not supported");
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
    }
    if (const std::size_t bits = 8 * bytes.size(); bits > 0 && bits < 64 && value >> (bits - 1)) {
      value |= ~std::uint64_t{0} << bits;
    }
    return static_cast<std::int64_t>(value);
  }

  bool text(unsigned op) {
    switch (op) {
      case 'X':
        push_text(Kind::text, take(little<std::uint32_t>()));
        return true;
      case 0x8c:
        push_text(Kind::text, take(byte()));
        return true;
      case 0x8d:
        push_text(Kind::text, take(little<std::uint64_t>()));
        return true;
      case 'B':
        push_text(Kind::bytes, take(little<std::uint32_t>()));
        return true;
      case 'C':
        push_text(Kind::bytes, take(byte()));
        return true;
      case 0x8e:
        push_text(Kind::bytes, take(little<std::uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  bool container(unsigned op) {
    switch (op) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ')':
        push({.kind = Kind::tuple});
        return true;
      case ']':
        push({.kind = Kind::list});
        return true;
      case '}':
        push({.kind = Kind::dict});
        return true;
      case 't':
        push({.kind = Kind::tuple, .items = pop_marked()});
        return true;
      case 0x85:
      case 0x86:
      case 0x87: {
        const std::size_t n = op - 0x84;
        need(n);
        marks_.push_back(stack_.size() - n);
        push({.kind = Kind::tuple, .items = pop_marked()});
        return true;
      }
      case 'a': {
        const PickleValue* const item = pop();
        top(Kind::list).items.push_back(item);
        return true;
      }
      case 's':
        need(2);
        marks_.push_back(stack_.size() - 2);
        set_items(pop_marked());
        return true;
      case 'e': {
        const auto items = pop_marked();
        std::vector<const PickleValue*>& list = top(Kind::list).items;
        list.insert(list.end(), items.begin(), items.end());
        return true;
      }
      case 'u':
        set_items(pop_marked());
        return true;
      default:
        return false;
    }
  }

  void set_items(const std::vector<const PickleValue*>& items) {
    check(items.size() % 2 == 0, "a key at byte {} has no value", at_ - 1);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const Kind kind = items[i]->kind;
      check(kind == Kind::text || kind == Kind::integer, "a dict's key at byte {} is {}", at_ - 1,
            name_of(kind));
    }
    std::vector<const PickleValue*>& dict = top(Kind::dict).items;
    dict.insert(dict.end(), items.begin(), items.end());
  }

  bool other(unsigned op) {
    switch (op) {
      case 'q':
        memoize(byte());
        return true;
      case 'r':
        memoize(little<std::uint32_t>());
        return true;
      case 0x94:
        memoize(memo_.size());
        return true;
      case 'h':
        recall(byte());
        return true;
      case 'j':
        recall(little<std::uint32_t>());
        return true;
      case 0x95:  // a frame says how much could be read at once
        check(little<std::uint64_t>() <= bytes_.size() - at_, "a frame at byte {} is too long",
              at_);
        return true;
      case 'c': {
        const std::string_view module = line();
        push_name(module, line());
        return true;
      }
      case 0x93: {
        const PickleValue* const name = pop();
        push_name(pop()->as_text("a module"), name->as_text("a name"));
        return true;
      }
      case 'Q':
        push_storage(*pop());
        return true;
      case 'R':
        call();
        return true;
      case 'b':  // the state of an OrderedDict beside its items: the versions of modules
        pop();
        top(Kind::dict);
        return true;
      default:
        return false;
    }
  }

  void memoize(std::size_t place) {
    need(1);
    check(place <= memo_.size(), "the value at byte {} is kept as number {} after {}", at_ - 1,
          place, memo_.size());
    if (place == memo_.size()) memo_.emplace_back();
    memo_[place] = stack_.back();
  }
  void recall(std::size_t place) {
    check(place < memo_.size(), "value {}, which byte {} asks for, is not there", place, at_ - 1);
    stack_.push_back(memo_[place]);
  }

  void push_name(std::string_view module, std::string_view name) {
    for (const Name& known : kCalls) {
      if (known.module == module && known.name == name) {
        return push({.kind = kName, .text = known.name});
      }
    }
    for (const StoredType& type : stored_types()) {
      if (module == "torch" && !type.torch_storage.empty() && name == type.torch_storage) {
        return push({.kind = kName, .text = type.torch_storage});
      }
    }
    fail("it asks for '{}.{}': only tensors and plain values are read, and no code is run",
         module.substr(0, 100), name.substr(0, 100));
  }

  // ('storage', type, key, place, elements); the place, such as cuda:0, does not matter here.
  void push_storage(const PickleValue& id) {
    const auto& parts = id.items;
    check(id.kind == Kind::tuple && parts.size() == 5 && parts[0]->kind == Kind::text &&
              parts[0]->text == "storage" && parts[1]->kind == kName &&
              parts[1]->text.ends_with("Storage") && parts[2]->kind == Kind::text &&
              parts[4]->kind == Kind::integer && parts[4]->integer >= 0,
          "what byte {} refers to is no storage of a tensor", at_ - 1);
    push({.kind = Kind::storage,
          .integer = parts[4]->integer,
          .text = parts[2]->text,
          .type = parts[1]->text});
  }

  // The two calls that there are, which are carried out here.
  void call() {
    const auto& args = pop()->as(Kind::tuple, "arguments").items;
    const PickleValue* const function = pop();
    check(function->kind == kName, "byte {} calls {}", at_ - 1, name_of(function->kind));
    if (function->text == kOrderedDict) {
      check(args.empty(), "an OrderedDict at byte {} is made of something", at_ - 1);
      return push({.kind = Kind::dict});
    }
    check(function->text == kRebuildTensor && args.size() >= 4 && args[0]->kind == Kind::storage &&
              args[1]->kind == Kind::integer && is_shape(*args[2]) && is_shape(*args[3]) &&
              args[2]->items.size() == args[3]->items.size(),
          "what byte {} makes is no tensor", at_ - 1);
    push({.kind = Kind::tensor, .items = {args.begin(), args.begin() + 4}});
  }
  static bool is_shape(const PickleValue& value) {
    return value.kind == Kind::tuple &&
           std::all_of(value.items.begin(), value.items.end(),
                       [](const auto* item) { return item->kind == Kind::integer; });
  }

  std::string_view bytes_;
  std::deque<PickleValue>& values_;
  std::size_t at_ = 0;
  std::vector<PickleValue*> stack_, memo_;
  std::vector<std::size_t> marks_;  // sizes that the stack had
};

}  // namespace

Pickle::Pickle(std::string bytes, std::string_view source) : bytes_(std::move(bytes)) {
  try {
    check(static_cast<std::int64_t>(bytes_.size()) <= kMostBytes,
          "the pickle has {} bytes; {} are the most", bytes_.size(), +kMostBytes);
    root_ = Unpickler(bytes_, values_).run();
  } catch (const Error& error) {
    fail("{}: {}", source, error.what());
  }
}

}  // namespace tapegrad
