// Files of meetings that are broken, or somebody else's: they change nothing.

#include <limits>

#include "tapegrad/optim/meetings/internal/meeting_file.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/meetings/met_group.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace fs = std::filesystem;

namespace {

// Two groups that have handed in their differences, with a key or without.
struct TwoMet {
  TempFolder folder, keys;
  fs::path key;
  MetGroup a, b;

  explicit TwoMet(const std::string& secret = "")
      : key(secret.empty() ? fs::path() : keys.put("key", secret)),
        a(folder.path(), "a", optim::CommDType::f32, key, "a,b"),
        b(folder.path(), "b", optim::CommDType::f32, key, "a,b") {
    a.train();
    b.train();
  }
  std::string secret() const { return optim::meeting_key(key); }
  optim::Arrivals arrivals() const { return optim::find_arrivals(folder.path(), secret()); }
  void put(const fs::path& file, const std::string& bytes) const {
    fs::remove(file);
    folder.put(file.filename().string(), bytes);
  }
};

const std::string kSecret(40, 's'), kOther(40, 'o');

// True if group b's file, as it is now, is left out, and the meeting is that of a alone.
bool leaves_out_b(const TwoMet& two) {
  const optim::Arrivals found = two.arrivals();
  if (found.present != std::vector<std::string>{"a"} || found.refused.size() != 1) return false;
  const TempFolder with, without;
  fs::copy(two.folder.path(), with.path());
  fs::copy(two.folder.path(), without.path());
  fs::remove(difference_file(without.path(), 1, "b"));
  optim::hold_meeting(with.path(), two.secret());
  optim::hold_meeting(without.path(), two.secret());
  return TempFolder::get(step_file(with.path(), 1)) ==
         TempFolder::get(step_file(without.path(), 1));
}

// The file with another word in place of one of the same size, which its checksum notices.
std::string with_word(std::string bytes, const std::string& from, const std::string& to) {
  const std::size_t at = bytes.find(from);
  REQUIRE(at != bytes.npos);
  return bytes.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a broken difference is left out of a meeting", "[meetings]") {
  for (const std::string& secret : {std::string(), kSecret}) {
    const TwoMet two(secret);
    const fs::path file = difference_file(two.folder.path(), 1, "b");
    const std::string bytes = TempFolder::get(file);
    CHECK(two.arrivals().present.size() == 2);
    for (const auto& [how, broken] : broken_forms(bytes)) {
      INFO(how);
      two.put(file, broken);
      CHECK(leaves_out_b(two));
    }
    two.put(file, bytes);
    CHECK(two.arrivals().present.size() == 2);
    CHECK(two.arrivals().refused.empty());
  }
}

TEST_CASE("a difference counts under its own name alone, and a link to one does not",
          "[meetings]") {
  const TwoMet two;
  const fs::path a = difference_file(two.folder.path(), 1, "a"),
                 b = difference_file(two.folder.path(), 1, "b");
  two.put(b, TempFolder::get(a));
  CHECK(leaves_out_b(two));
  fs::remove(b);
  const fs::path elsewhere = two.keys.put("elsewhere", TempFolder::get(a));
  fs::create_symlink(elsewhere, b);
  CHECK(two.arrivals().present == std::vector<std::string>{"a"});
  fs::remove(b);
  fs::create_directory(b);
  CHECK(two.arrivals().present == std::vector<std::string>{"a"});
}

TEST_CASE("with a key, files of whoever does not have it are left out", "[meetings]") {
  const TwoMet two(kSecret), stranger(kOther), unsigned_(std::string{});
  const fs::path file = difference_file(two.folder.path(), 1, "b");
  for (const TwoMet* other : {&stranger, &unsigned_}) {
    const std::string bytes = TempFolder::get(difference_file(other->folder.path(), 1, "b"));
    two.put(file, bytes);
    CHECK(leaves_out_b(two));
    CHECK_THAT(two.arrivals().refused.front(),
               ContainsSubstring(other == &stranger ? "signed with another key" : "not signed"));
  }
}

TEST_CASE("a difference of another meeting is left out", "[meetings]") {
  TwoMet two(kSecret);
  const std::string old = TempFolder::get(difference_file(two.folder.path(), 1, "b"));
  optim::hold_meeting(two.folder.path(), two.secret());
  two.a.sync->meet();
  two.b.sync->meet();
  two.a.train();
  two.put(difference_file(two.folder.path(), 2, "b"), old);
  CHECK(two.arrivals().present == std::vector<std::string>{"a"});

  // One of a second meeting, but after another first one.
  const TwoMet other(kSecret);
  fs::remove(difference_file(other.folder.path(), 1, "a"));
  optim::hold_meeting(other.folder.path(), kSecret);
  MetGroup b(other.folder.path(), "b", optim::CommDType::f32, two.key, "a,b");
  b.sync->meet();
  b.train();
  two.put(difference_file(two.folder.path(), 2, "b"),
          TempFolder::get(difference_file(other.folder.path(), 2, "b")));
  CHECK(two.arrivals().present == std::vector<std::string>{"a"});
  CHECK_THAT(two.arrivals().refused.front(), ContainsSubstring("same weights to begin with"));
}

TEST_CASE("a difference that is not finite is left out", "[meetings]") {
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const TempFolder folder;
    MetGroup a(folder.path(), "a", optim::CommDType::f32, {}, "a,b"),
        b(folder.path(), "b", optim::CommDType::f32, {}, "a,b");
    a.train();
    while (!b.sync->meeting_due()) b.step();
    b.tensors.p.mutable_data<float>()[2] = value;
    b.sync->meet();
    const optim::Arrivals found = optim::find_arrivals(folder.path(), "");
    CHECK(found.present == std::vector<std::string>{"a"});
    CHECK_THAT(found.refused.front(), ContainsSubstring("not numbers"));
  }
}

TEST_CASE("differences whose sum is no number make no step", "[meetings]") {
  const TempFolder folder;
  MetGroup a(folder.path(), "a", optim::CommDType::f32, {}, "a,b"),
      b(folder.path(), "b", optim::CommDType::f32, {}, "a,b");
  for (MetGroup* group : {&a, &b}) {
    while (!group->sync->meeting_due()) group->step();
    group->tensors.p.mutable_data<float>()[2] = std::numeric_limits<float>::max();
    group->sync->meet();
  }
  CHECK(optim::find_arrivals(folder.path(), "").present.size() == 2);
  CHECK_THROWS_WITH(optim::hold_meeting(folder.path(), ""), ContainsSubstring("not numbers"));
  CHECK(folder.entries() == 2);
}

TEST_CASE("a step that is not finite is not taken, and names in a file do not control a terminal",
          "[meetings]") {
  TwoMet two;
  optim::hold_meeting(two.folder.path(), "");
  const fs::path path = step_file(two.folder.path(), 1);
  const optim::MeetingFile sound = optim::read_meeting_file(path, "");
  const std::vector<double> before = two.a.tensors.values();
  optim::MeetingFile broken = sound;
  broken.tensors["p"] = optim::packed(optim::CommDType::f32,
                                      Tensor::full({4}, std::numeric_limits<float>::quiet_NaN()));
  optim::write_meeting_file(path, broken, "");
  CHECK_THAT(two.a.sync->meet(), ContainsSubstring("not numbers"));
  broken.tensors["p"] = Tensor::zeros({15}, DType::u8);
  optim::write_meeting_file(path, broken, "");
  CHECK_THAT(two.a.sync->meet(), ContainsSubstring("of another model"));
  broken.tensors = {{"\x1b[2J", Tensor::zeros({1})}};
  optim::write_meeting_file(path, broken, "");
  CHECK_THAT(two.a.sync->meet(), ContainsSubstring("\\x1b[2J") && !ContainsSubstring("\x1b"));
  CHECK(two.a.sync->meeting_due());
  CHECK(two.a.tensors.values() == before);
  optim::write_meeting_file(path, sound, "");
  CHECK(two.a.sync->meet() == "meeting 1 of a, b");
}

TEST_CASE("the last meeting is that of the highest number", "[meetings]") {
  const TwoMet two;
  optim::hold_meeting(two.folder.path(), "");
  optim::MeetingFile file = optim::read_meeting_file(step_file(two.folder.path(), 1), "");
  for (const int meeting : {1'000'000, 999'999}) {
    file.record.meeting = meeting;
    optim::write_meeting_file(step_file(two.folder.path(), meeting), file, "");
  }
  CHECK(two.arrivals().meeting == 1'000'001);
}

TEST_CASE("groups that begin at different weights, or with other options, are told so",
          "[meetings]") {
  const TempFolder folder;
  MetGroup a(folder.path(), "a", optim::CommDType::f32, {}, "a,b"),
      b(folder.path(), "b", optim::CommDType::f32, {}, "a,b");
  b.tensors.p.mutable_data<float>()[0] = 7;
  b.begin();
  a.train();
  b.train();
  CHECK_THROWS_WITH(optim::hold_meeting(folder.path(), ""),
                    ContainsSubstring("same weights to begin with"));
  fs::remove(difference_file(folder.path(), 1, "b"));
  MetGroup other(folder.path(), "b", optim::CommDType::bf16, {}, "a,b");
  other.train();
  CHECK_THROWS_WITH(optim::hold_meeting(folder.path(), ""), ContainsSubstring("--comm-dtype"));
  CHECK_FALSE(fs::exists(step_file(folder.path(), 1)));
}

TEST_CASE("a group takes no step that is broken, a stranger's or of other meetings", "[meetings]") {
  TwoMet two(kSecret), stranger(kOther);
  const fs::path file = step_file(two.folder.path(), 1);
  optim::hold_meeting(two.folder.path(), kSecret);
  optim::hold_meeting(stranger.folder.path(), kOther);
  const std::string bytes = TempFolder::get(file);
  const std::vector<double> before = two.a.tensors.values();
  auto forms = broken_forms(bytes);
  forms.emplace_back("a stranger's", TempFolder::get(step_file(stranger.folder.path(), 1)));
  forms.emplace_back("a difference", TempFolder::get(difference_file(two.folder.path(), 1, "b")));
  forms.emplace_back("another number", with_word(bytes, "\"meeting\":\"1\"", "\"meeting\":\"2\""));
  for (const auto& [how, broken] : forms) {
    INFO(how);
    two.put(file, broken);
    CHECK_THAT(two.a.sync->meet(), ContainsSubstring("is waited for"));
    CHECK(two.a.sync->meeting_due());
    CHECK(two.a.tensors.values() == before);
  }
  two.put(file, bytes);
  CHECK(two.a.sync->meet() == "meeting 1 of a, b");

  // The second meeting of others, who had another first one.
  const TempFolder other;
  MetGroup b(other.path(), "b", optim::CommDType::f32, two.key, "a,b");
  for (int meeting = 1; meeting <= 2; ++meeting) {
    b.train();
    optim::hold_meeting(other.path(), kSecret);
    b.sync->meet();
  }
  two.a.train();
  two.put(step_file(two.folder.path(), 2), TempFolder::get(step_file(other.path(), 2)));
  CHECK_THAT(two.a.sync->meet(), ContainsSubstring("not of the meeting that follows"));
  CHECK(two.a.sync->meeting_due());
}

TEST_CASE("a stranger's step stops nobody who holds meetings", "[meetings]") {
  TwoMet two(kSecret), stranger(kOther);
  optim::hold_meeting(stranger.folder.path(), kOther);
  const std::string strange = TempFolder::get(step_file(stranger.folder.path(), 1));
  two.put(step_file(two.folder.path(), 1), strange);
  two.put(step_file(two.folder.path(), 999), strange);
  two.put(two.folder / "meeting-1.safetensors", strange);
  two.put(two.folder / "meeting-000001-.safetensors", strange);
  const optim::HeldMeeting held = optim::hold_meeting(two.folder.path(), kSecret);
  CHECK(held.arrivals.meeting == 1);
  CHECK(held.arrivals.present.size() == 2);
  CHECK(two.a.sync->meet() == "meeting 1 of a, b");
}
