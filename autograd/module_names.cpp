#include "tapegrad/autograd/module_names.h"

#include <algorithm>
#include <cctype>

namespace tapegrad {

std::string module_of(std::string_view parameter) {
  return std::string(parameter.substr(0, parameter.rfind('.')));
}

std::vector<std::string> module_parts(std::string_view module) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string part(module.substr(begin, end - begin));
    const bool number =
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number && !part.empty() && !parts.empty()) {
      parts.back() += "." + part;
    } else if (!part.empty()) {
      parts.push_back(part);
    }
    begin = end + 1;
  }
  return parts;
}

}  // namespace tapegrad
