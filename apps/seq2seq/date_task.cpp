#include "tapegrad/apps/seq2seq/date_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <initializer_list>
#include <string_view>
#include <unordered_set>

namespace tapegrad::seq2seq {
namespace {

using Words = std::string;

constexpr std::array<std::string_view, 12> months = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> weekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                      "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 20> ones = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> tens = {"",      "",      "twenty",  "thirty", "forty",
                                                   "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<std::string_view, 20> ordinals = {
    "",           "first",     "second",    "third",       "fourth",     "fifth",     "sixth",
    "seventh",    "eighth",    "ninth",     "tenth",       "eleventh",   "twelfth",   "thirteenth",
    "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"};

struct Moment {
  int year, month, day, weekday;
  int hour, minute, second;
};

int draw(Rng& rng, int from, int to) {
  return from + static_cast<int>(rng.randint(int64_t{to} - from + 1));
}
bool chance(Rng& rng, int percent) { return draw(rng, 1, 100) <= percent; }
Words one_of(Rng& rng, std::initializer_list<Words> choices) {
  return choices.begin()[draw(rng, 0, static_cast<int>(choices.size()) - 1)];
}

std::string at(const auto& words, int i) { return std::string(words[static_cast<size_t>(i)]); }

// 0 to 99 in words.
Words number(int n) {
  if (n < 20) return at(ones, n);
  return at(tens, n / 10) + (n % 10 == 0 ? "" : "-" + at(ones, n % 10));
}

// 1 to 31.
Words ordinal(int n) {
  if (n < 20) return at(ordinals, n);
  if (n % 10 == 0) return n == 20 ? "twentieth" : "thirtieth";
  return at(tens, n / 10) + "-" + at(ordinals, n % 10);
}

// 1st to 31st.
Words short_ordinal(int n) {
  const bool teen = n >= 11 && n <= 13;
  return fmt::format("{}{}", n,
                     !teen && n % 10 == 1   ? "st"
                     : !teen && n % 10 == 2 ? "nd"
                     : !teen && n % 10 == 3 ? "rd"
                                            : "th");
}

Words year_in_words(Rng& rng, int year) {
  const int century = year / 100, rest = year % 100;
  if (century == 20 && (rest < 10 || chance(rng, 50))) {
    if (rest == 0) return "two thousand";
    return (chance(rng, 50) ? "two thousand and " : "two thousand ") + number(rest);
  }
  if (rest == 0) return number(century) + " hundred";
  return number(century) + (rest < 10 ? " oh " : " ") + number(rest);
}

Words short_name(std::string_view name) { return Words(name.substr(0, 3)); }

Words year_in_digits(Rng& rng, const Moment& m) {
  const bool two_digits = m.year >= 1970 && m.year <= 2069 && chance(rng, 20);
  return two_digits ? fmt::format("'{:02}", m.year % 100) : fmt::format("{}", m.year);
}

// March 5, 2021 and its like.
Words date_with_month_name(Rng& rng, const Moment& m) {
  const Words name = at(months, m.month - 1), brief = short_name(name);
  const Words month = one_of(rng, {name, name, brief, m.month == 5 ? brief : brief + "."});
  const Words day =
      one_of(rng, {fmt::format("{}", m.day), fmt::format("{:02}", m.day), short_ordinal(m.day)});
  const Words year = year_in_digits(rng, m), comma = one_of(rng, {",", ""});
  return one_of(rng,
                {month + " " + day + comma + " " + year, day + " " + month + comma + " " + year,
                 short_ordinal(m.day) + " of " + name + comma + " " + year,
                 "the " + short_ordinal(m.day) + " of " + name + comma + " " + year});
}

Words date_in_words(Rng& rng, const Moment& m) {
  const Words month = at(months, m.month - 1), day = ordinal(m.day);
  const Words year = chance(rng, 70) ? year_in_words(rng, m.year) : fmt::format("{}", m.year);
  const Words comma = one_of(rng, {",", ""});
  return one_of(rng,
                {month + " " + day + comma + " " + year, month + " the " + day + comma + " " + year,
                 "the " + day + " of " + month + comma + " " + year});
}

Words date_in_digits(Rng& rng, const Moment& m) {
  const int y = m.year, mo = m.month, d = m.day;
  const Words brief = short_name(at(months, mo - 1));
  const bool two_digits = y >= 1970 && y <= 2069;
  const Words yy = fmt::format("{:02}", y % 100);
  return one_of(rng, {fmt::format("{}/{}/{}", mo, d, y), fmt::format("{:02}/{:02}/{}", mo, d, y),
                      fmt::format("{}/{}/{}", mo, d, two_digits ? yy : std::to_string(y)),
                      fmt::format("{}.{}.{}", d, mo, y), fmt::format("{:02}.{:02}.{}", d, mo, y),
                      fmt::format("{}/{}/{}", y, mo, d), fmt::format("{}-{:02}-{:02}", y, mo, d),
                      fmt::format("{:02}-{}-{}", d, brief, two_digits ? yy : std::to_string(y)),
                      fmt::format("{}-{}-{}", d, brief, y), fmt::format("{}{:02}{:02}", y, mo, d)});
}

Words date(Rng& rng, const Moment& m) {
  const int form = draw(rng, 1, 100);
  if (form <= 25) return date_in_digits(rng, m);
  const Words words = form <= 75 ? date_with_month_name(rng, m) : date_in_words(rng, m);
  if (!chance(rng, 30)) return words;
  const Words name = at(weekdays, m.weekday);
  return one_of(rng, {name + ", ", name + " ", short_name(name) + ", ", short_name(name) + " "}) +
         words;
}

int on_the_clock(int hour) { return (hour + 11) % 12 + 1; }

Words part_of_day(int hour) {
  if (hour == 0 || hour >= 21) return "at night";
  return hour < 12 ? "in the morning" : hour < 18 ? "in the afternoon" : "in the evening";
}

Words half_of_day(Rng& rng, int hour) {
  return hour < 12 ? one_of(rng, {" am", "am", " a.m.", " AM"})
                   : one_of(rng, {" pm", "pm", " p.m.", " PM"});
}

// half past three in the afternoon, three thirty pm
Words time_in_words(Rng& rng, const Moment& m) {
  const Words hour = number(on_the_clock(m.hour)), next = number(on_the_clock(m.hour + 1));
  const Words part = " " + part_of_day(m.hour);
  const int left = 60 - m.minute;
  if (m.minute == 0) {
    return one_of(rng, {hour + " o'clock" + part, hour + part, hour + half_of_day(rng, m.hour)});
  }
  if (chance(rng, 35)) {
    const Words oh = m.minute < 10 ? " oh " : " ";
    return hour + oh + number(m.minute) + half_of_day(rng, m.hour);
  }
  if (m.minute == 30) return "half past " + hour + part;
  const bool past = m.minute < 30;
  const int minutes = past ? m.minute : left;
  const Words unit = minutes == 15      ? Words("quarter")
                     : minutes % 5 == 0 ? number(minutes)
                     : minutes == 1     ? Words("one minute")
                                        : number(minutes) + " minutes";
  return unit + (past ? " past " + hour : " to " + next) + part;
}

Words time_in_digits(Rng& rng, const Moment& m, bool seconds) {
  const Words end = seconds ? fmt::format(":{:02}", m.second) : "";
  const int clock = on_the_clock(m.hour);
  if (m.minute == 0 && !seconds && chance(rng, 50)) {
    return fmt::format("{}{}", clock, half_of_day(rng, m.hour));
  }
  return one_of(rng, {fmt::format("{}:{:02}{}", m.hour, m.minute, end),
                      fmt::format("{:02}:{:02}{}", m.hour, m.minute, end),
                      fmt::format("{}:{:02}{}", clock, m.minute, end) + half_of_day(rng, m.hour),
                      fmt::format("{:02}:{:02}{}", clock, m.minute, end) + half_of_day(rng, m.hour),
                      seconds ? fmt::format("{:02}:{:02}{}", m.hour, m.minute, end)
                              : fmt::format("{:02}{:02} hours", m.hour, m.minute)});
}

struct Time {
  Words written, iso;
};

Time time(Rng& rng, Moment m) {
  if (chance(rng, 40)) m.minute = draw(rng, 0, 11) * 5;
  const bool seconds = chance(rng, 15);
  Time t;
  if (chance(rng, 3)) {
    m.minute = 0, m.hour = draw(rng, 0, 1) * 12;
    t.written = m.hour == 0 ? "midnight" : "noon";
    return {t.written, fmt::format("{:02}:00", m.hour)};
  }
  t.written = !seconds && chance(rng, 45) ? time_in_words(rng, m) : time_in_digits(rng, m, seconds);
  t.iso = fmt::format("{:02}:{:02}", m.hour, m.minute);
  // Words have no seconds; digits that were drawn with them do.
  if (seconds) t.iso += fmt::format(":{:02}", m.second);
  if (chance(rng, 10)) {
    t.written += one_of(rng, {" UTC", " GMT"});
    t.iso += "Z";
  }
  return t;
}

Moment draw_moment(Rng& rng) {
  using namespace std::chrono;
  const sys_days first = year(1900) / 1 / 1, last = year(2099) / 12 / 31;
  const sys_days day = first + days(rng.randint((last - first).count() + 1));
  const year_month_day date(day);
  return {.year = static_cast<int>(date.year()),
          .month = static_cast<int>(static_cast<unsigned>(date.month())),
          .day = static_cast<int>(static_cast<unsigned>(date.day())),
          .weekday = static_cast<int>(weekday(day).c_encoding()),
          .hour = draw(rng, 0, 23),
          .minute = draw(rng, 0, 59),
          .second = draw(rng, 0, 59)};
}

Words in_some_case(Rng& rng, Words text) {
  const int form = draw(rng, 1, 100);
  if (form > 20) return text;
  std::transform(text.begin(), text.end(), text.begin(), [&](unsigned char c) {
    return static_cast<char>(form <= 12 ? std::tolower(c) : std::toupper(c));
  });
  return text;
}

}  // namespace

DatePair draw_date_pair(Rng& rng) {
  const Moment m = draw_moment(rng);
  const int form = draw(rng, 1, 100);
  DatePair pair;
  // Each draw is a statement of its own, since compilers may evaluate operands in any order.
  if (form <= 45) {
    const Words day = date(rng, m);
    pair = {one_of(rng, {"", "", "on "}) + day, ""};
  } else {
    const Time t = time(rng, m);
    if (form <= 55) return {in_some_case(rng, one_of(rng, {"", "at "}) + t.written), t.iso};
    const Words day = date(rng, m);
    // "two thousand eleven eleven am" would have two meanings.
    const bool words_meet = std::isalpha(static_cast<unsigned char>(day.back())) != 0 &&
                            std::isalpha(static_cast<unsigned char>(t.written.front())) != 0;
    const Words gap = words_meet ? ", " : " ";
    pair = {one_of(rng, {day + " at " + t.written, day + ", " + t.written, day + gap + t.written,
                         t.written + " on " + day, "at " + t.written + " on " + day,
                         t.written + ", " + day}),
            "T" + t.iso};
  }
  return {in_some_case(rng, pair.written),
          fmt::format("{}-{:02}-{:02}{}", m.year, m.month, m.day, pair.iso)};
}

std::string date_task(int64_t count) {
  Rng rng(20240229, Rng::Kind::philox);
  std::unordered_set<std::string> seen;
  std::string text;
  while (static_cast<int64_t>(seen.size()) < count) {
    const DatePair pair = draw_date_pair(rng);
    if (seen.insert(pair.written).second) text += pair.written + "\t" + pair.iso + "\n";
  }
  return text;
}

}  // namespace tapegrad::seq2seq
