#include "tapegrad/data/grammar/schema/internal/string_formats.h"

#include <map>
#include <set>
#include <string>

namespace tapegrad::data {
namespace {

// February 29 is in years that 4 divides, unless 100 does and 400 does not.
const std::string kDate =
    "((\\d{4}-((0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)"
    "|(0[13578]|1[02])-31))"
    "|((\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29))";
const std::string kTime =
    "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
const std::string kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const std::string kByte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

const std::map<std::string_view, std::string> kFormats = {
    {"date-time", "^" + kDate + "T" + kTime + "$"},
    {"date", "^" + kDate + "$"},
    {"time", "^" + kTime + "$"},
    {"duration",
     "^P(\\d{1,9}W|(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|\\d{1,9}M(\\d{1,9}D)?|\\d{1,9}D)"
     "|T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))$"},
    {"email",
     "^[A-Za-z0-9_+-]{1,60}(\\.[A-Za-z0-9_+-]{1,60}){0,3}@" + kLabel + "(\\." + kLabel + "){1,3}$"},
    {"hostname", "^" + kLabel + "(\\." + kLabel + "){0,3}$"},
    {"ipv4", "^" + kByte + "(\\." + kByte + "){3}$"},
    {"ipv6", "^[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){7}$"},
    {"uri", "^https?://" + kLabel + "(\\." + kLabel +
                "){0,3}(:[1-9]\\d{0,3})?(/[A-Za-z0-9_.~-]*)*(\\?[A-Za-z0-9_.~=&-]*)?"
                "(#[A-Za-z0-9_.~-]*)?$"},
    {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
};

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  const auto found = kFormats.find(format);
  return found == kFormats.end() ? std::string_view() : found->second;
}

bool is_said_by_pattern(std::string_view format) {
  static const std::set<std::string_view> kNames = {
      "base64", "base64url", "cidrv4",      "cidrv6", "cuid",      "cuid2", "e164",
      "emoji",  "ends_with", "guid",        "hex",    "includes",  "ksuid", "lowercase",
      "mac",    "nanoid",    "starts_with", "ulid",   "uppercase", "xid"};
  return kNames.contains(format);
}

}  // namespace tapegrad::data
