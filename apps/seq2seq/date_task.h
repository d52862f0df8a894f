#pragma once

#include <string>

#include "tapegrad/base/random.h"

namespace tapegrad::seq2seq {

// The pairs that train-seq2seq makes by itself: dates and times as people write them in English,
// and the same dates and times in ISO 8601.
//
//   Friday, March 5th, 2021 at half past three in the afternoon     2021-03-05T15:30
//   7 Aug '98                                                       1998-08-07
//   11:05:09 PM UTC                                                 23:05:09Z
//
// Conventions where English has several: 3/5/2021 is March 5 and 5.3.2021 is 5 March; years of two
// digits are 1970 to 2069; noon and "twelve in the afternoon" are 12:00, midnight and "twelve at
// night" 00:00, the beginning of the day. UTC and GMT become Z.
struct DatePair {
  std::string written, iso;
};
DatePair draw_date_pair(Rng& rng);

// `count` lines: a date as written, a tab, the date in ISO 8601. No two are written alike. Each
// call gives the same lines.
std::string date_task(int64_t count);

}  // namespace tapegrad::seq2seq
