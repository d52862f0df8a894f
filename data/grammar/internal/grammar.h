#pragma once

#include "tapegrad/data/grammar/internal/byte_terms.h"

namespace tapegrad::data {

// The result of compile_schema().
struct Grammar {
  ByteTerms terms;
  Term start;
  Term any_char;  // of strings: see JsonTexts
};

}  // namespace tapegrad::data
