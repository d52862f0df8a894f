#include "tapegrad/autograd/module_names.h"

#include <algorithm>
#include <cctype>

namespace tapegrad {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string module_of(std::string_view parameter) {
  return std::string(parameter.substr(0, parameter.rfind('.')));
}

std::vector<std::string> module_parts(std::string_view module) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string part(module.substr(begin, end - begin));
    if (is_number(part) && !parts.empty()) {
      parts.back() += "." + part;
    } else if (!part.empty()) {
      parts.push_back(part);
    }
    begin = end + 1;
  }
  return parts;
}

std::string block_of(std::string_view parameter) {
  for (std::size_t begin = 0; begin < parameter.size();) {
    const std::size_t end = std::min(parameter.find('.', begin), parameter.size());
    if (is_number(parameter.substr(begin, end - begin)))
      return std::string(parameter.substr(0, end));
    begin = end + 1;
  }
  return {};
}

}  // namespace tapegrad
