#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::data::jinja {

// What a template makes counts itself: its values are built of the types of this header, which take
// their memory off the bounds of the execution that runs in this thread (see Run), and raise where
// one is exceeded. Outside of an execution, nothing is counted. A test keeps std::string,
// std::vector and std::make_shared out of this room, except for what the parser makes.

void count_steps(std::size_t steps);
// Before bytes are taken; copying them or filling them takes steps, too.
void count_bytes(std::size_t bytes);
void return_bytes(std::size_t bytes) noexcept;
// For loops over the bytes of a text.
inline void count_reading(std::string_view text) { count_steps(text.size() / 16); }
// For a search, which compares all of `part` at every place of `text` at worst. A part that is
// longer is not looked for.
inline void count_search(std::string_view text, std::string_view part) {
  if (part.size() <= text.size()) count_steps(text.size() / 16 * (1 + part.size() / 64));
}

template <class T>
struct Counted {
  using value_type = T;
  Counted() = default;
  template <class U>
  Counted(const Counted<U>&) noexcept {}

  T* allocate(std::size_t n) {
    count_bytes(n > SIZE_MAX / sizeof(T) ? SIZE_MAX : n * sizeof(T));
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* memory, std::size_t n) noexcept {
    return_bytes(n * sizeof(T));
    std::allocator<T>().deallocate(memory, n);
  }
  template <class U>
  bool operator==(const Counted<U>&) const noexcept {
    return true;
  }
};

using String = std::basic_string<char, std::char_traits<char>, Counted<char>>;
template <class T>
using Vector = std::vector<T, Counted<T>>;
template <class T, class... Args>
std::shared_ptr<T> make_counted(Args&&... args) {
  return std::allocate_shared<T>(Counted<T>(), std::forward<Args>(args)...);
}

// For short texts: numbers, and names of the template's source.
template <class... Args>
String formatted(fmt::format_string<Args...> format, Args&&... args) {
  return String(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace tapegrad::data::jinja
