#include <algorithm>

#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Profile::Entry entry_of(const Profile& profile, const std::string& name) {
  const auto entries = profile.entries();
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const Profile::Entry& e) { return e.name == name; });
  return it == entries.end() ? Profile::Entry{} : *it;
}

}  // namespace

TEST_CASE("a profile counts ops and vjps with what is inside them", "[profile]") {
  Rng rng(1);
  const Tensor x = parameter(rng, {6, 4}), w = parameter(rng, {5, 4});
  const Profile profile;
  for (int i = 0; i < 3; ++i) {
    Tape tape;
    tape.backward(sum(linear(x, w)));
  }
  const auto forward = entry_of(profile, "linear"), backward = entry_of(profile, "linear backward");
  CHECK(forward.calls == 3);
  CHECK(forward.flops == 3 * 2 * 6 * 5 * 4);
  CHECK(forward.bytes == 3 * 8 * (6 * 4 + 5 * 4 + 6 * 5));
  CHECK(backward.calls == 3);
  CHECK(backward.flops == 2 * forward.flops);
  CHECK(backward.seconds > 0);
  CHECK(entry_of(profile, "matmul").calls == 0);  // they are inside linear's backward
  const auto entries = profile.entries();
  CHECK(std::is_sorted(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return a.seconds > b.seconds; }));
}

TEST_CASE("products on all threads are counted", "[profile]") {
  Rng rng(2);
  const Tensor q = normal(rng, {2, 70, 12});
  const Profile profile;
  attention(q, q, q, 3, {.causal = false});
  CHECK(entry_of(profile, "attention").flops == 2.0 * 2 * 2 * 70 * 70 * 12);
}

TEST_CASE("the newest profile of a thread gets everything", "[profile]") {
  const Tensor x = Tensor::ones({3});
  const Profile outer;
  {
    const Profile inner;
    exp(x);
    CHECK(entry_of(inner, "exp").calls == 1);
  }
  exp(x);
  CHECK(entry_of(outer, "exp").calls == 1);
}

TEST_CASE("an op that throws leaves the profile ready for the next", "[profile]") {
  const Profile profile;
  CHECK_THROWS(add(Tensor::ones({2}), Tensor::ones({3})));
  exp(Tensor::ones({2}));
  CHECK(entry_of(profile, "exp").calls == 1);
}
