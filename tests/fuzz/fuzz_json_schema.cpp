// JSON schemas. A text under the grammar of one that is accepted must go on until it ends: there
// are no dead ends.

#include "tapegrad/data/grammar/internal/grammar.h"
#include "tapegrad/data/grammar/json_schema.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepts("json_schema", [&] {
    const auto grammar =
        data::compile_schema(fuzz::text_of(data, size), {.depth = 4, .most_terms = 100'000});
    data::ByteTerms terms = grammar->terms;
    terms.allow_more(100'000);
    data::Term term = grammar->start;
    // What closes comes first, and then another byte at each place.
    for (std::size_t i = 0; i < 2000 && term != data::ByteTerms::kEmpty; ++i) {
      const data::ByteSet& first = terms.first(term);
      if (first.none()) fuzz::finding("a text cannot go on");
      std::size_t byte = 0;
      for (const unsigned char closing : {'"', '}', ']'}) {
        if (byte == 0 && i % 3 != 0 && first[closing]) byte = closing;
      }
      if (byte == 0) {
        byte = i * 37 % 256;
        while (!first[byte]) byte = (byte + 1) % 256;
      }
      term = terms.after(term, static_cast<std::uint8_t>(byte));
      if (term == data::ByteTerms::kNothing) fuzz::finding("a byte that may come leads nowhere");
    }
  });
  return 0;
}
