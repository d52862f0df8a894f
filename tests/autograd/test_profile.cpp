#include <algorithm>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/base/parallel.h"
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

TEST_CASE("a timeline tells when ops ran, of which module, within which part", "[profile]") {
  Rng rng(3);
  const Tensor x = normal(rng, {6, 4}), w = parameter(rng, {5, 4}), u = parameter(rng, {3, 5});
  const NamedTensors names = {{"h.0.fc.weight", w}, {"h.1.fc.weight", u}};
  const Profile profile({.timeline = true, .names = names});
  {
    const ProfiledPart step("step");
    Tape tape;
    Tensor loss;
    {
      const ProfiledPart part("forward");
      loss = sum(linear(exp(linear(x, w)), u));
    }
    tape.backward(loss);
  }
  std::vector<std::string> told;
  const Profile::Timeline line = profile.timeline();
  double begin = 0;
  for (const Profile::Event& e : line.events) {
    CHECK(e.begin >= begin);
    CHECK(e.end >= e.begin);
    begin = e.begin;
    told.push_back(std::string(e.name) + (e.backward ? " backward" : "") +
                   (e.has_parameter ? " in " : " after ") + e.module);
  }
  // Parts have no module.
  CHECK(told == std::vector<std::string>{"step after ", "forward after ", "linear in h.0.fc",
                                         "exp after h.0.fc", "linear in h.1.fc", "sum after h.1.fc",
                                         "reshape after h.1.fc", "reshape backward after h.1.fc",
                                         "sum backward after h.1.fc", "linear backward in h.1.fc",
                                         "exp backward after h.0.fc", "linear backward in h.0.fc"});
  CHECK(line.events[0].end >= line.events.back().end);
  CHECK(line.events[1].end <= line.events[7].begin);
  CHECK(line.events[2].flops == 2 * 6 * 5 * 4);
  CHECK(line.left_out == 0);
}

TEST_CASE("a profile without a timeline keeps none", "[profile]") {
  const Profile profile;
  const ProfiledPart part("nothing");
  CHECK_THROWS_AS(profile.timeline(), Error);
}

TEST_CASE("a timeline tells what other threads did in an op", "[profile]") {
  const int before = num_threads();
  set_num_threads(2);
  const Tensor x = Tensor::ones({1 << 20});
  const Profile profile({.timeline = true});
  // A thread that the system is slow to wake may come too late for one loop, but not for all.
  bool helped = false;
  for (int i = 0; i < 1000 && !helped; ++i) {
    exp(x);
    helped = profile.timeline().threads.size() == 2 && !profile.timeline().threads[1].empty();
  }
  const Profile::Timeline line = profile.timeline();
  set_num_threads(before);
  REQUIRE(line.threads.size() == 2);
  REQUIRE_FALSE(line.threads[0].empty());
  REQUIRE(helped);
  const LoopLog::Part part = line.threads[1][0];
  CHECK(part.begin < part.end);
  const bool within = std::any_of(line.events.begin(), line.events.end(), [&](const auto& e) {
    return e.begin <= part.begin && part.end <= e.end;
  });
  CHECK(within);
}
