// Meetings of groups through files, in one process. test_met_runs.cpp compares runs with those of
// processes that meet by MPI.

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/meetings/met_group.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Values = std::vector<double>;

// The groups in one process, by formulas: each has its own optimiser, and the outer step is in f64.
struct MetByHand {
  std::vector<TwoTensors> models;
  std::vector<std::unique_ptr<optim::GradientSync>> syncs;
  Values anchor = TwoTensors().values(), momentum = Values(anchor.size());
  std::vector<int> made;

  explicit MetByHand(int groups) : made(static_cast<std::size_t>(groups)) {
    for (int g = 0; g < groups; ++g) {
      models.emplace_back(DType::f32);
      syncs.push_back(optim::make_gradient_sync(models.back().named(), optim::GroupRules{}));
    }
  }

  void train(const std::vector<std::size_t>& present) {
    for (std::size_t g = 0; g < models.size(); ++g) {
      for (int i = 0; i < kLocalSteps; ++i) {
        const int t = 1 + 3 * made[g]++ + static_cast<int>(g);
        syncs[g]->round(1, [&](const auto&) { models[g].backward(t); });
        static_cast<void>(syncs[g]->measure_clipping(0));
        syncs[g]->step(kMetRate, 1);
        syncs[g]->zero_grad();
      }
    }
    const optim::LocalSteps outer;
    for (std::size_t i = 0; i < anchor.size(); ++i) {
      double g = 0;
      for (const std::size_t one : present)
        g += (anchor[i] - models[one].values()[i]) / static_cast<double>(present.size());
      momentum[i] = outer.momentum * momentum[i] + g;
      anchor[i] -= outer.learning_rate * (g + outer.momentum * momentum[i]);
    }
    for (TwoTensors& model : models) {
      std::size_t i = 0;
      for (Tensor t : {model.p, model.b}) {
        for (std::int64_t j = 0; j < t.numel(); ++j)
          t.mutable_data<float>()[j] = static_cast<float>(anchor[i++]);
      }
    }
  }
};

// All groups of a folder.
struct MetGroups {
  TempFolder folder;
  MetGroup a{folder.path(), "a"}, b{folder.path(), "b"}, c{folder.path(), "c"};

  std::string train() {
    std::string words;
    for (MetGroup* group : {&a, &b, &c}) words += group->train() + "\n";
    return words;
  }
  void meet() {
    for (MetGroup* group : {&a, &b, &c}) group->sync->meet();
  }
};

}  // namespace

TEST_CASE("groups that meet through files make the steps of the formulas", "[meetings]") {
  MetGroups groups;
  MetByHand expected(3);
  for (int meeting = 1; meeting <= 3; ++meeting) {
    INFO("meeting " << meeting);
    CHECK_THAT(groups.train(), ContainsSubstring("is waited for"));
    const Values before = groups.a.tensors.values();
    groups.meet();
    CHECK(groups.a.sync->meeting_due());  // nobody has held it
    CHECK(groups.a.tensors.values() == before);
    const optim::HeldMeeting held = optim::hold_meeting(groups.folder.path(), "");
    CHECK(held.arrivals.meeting == meeting);
    CHECK(held.arrivals.present == std::vector<std::string>{"a", "b", "c"});
    CHECK(held.step == step_file(groups.folder.path(), meeting));
    groups.meet();
    expected.train({0, 1, 2});
    CHECK(differences(groups.a.tensors.values(), expected.anchor, 1e-5) == "");
    CHECK(groups.b.tensors.values() == groups.a.tensors.values());
    CHECK(groups.c.tensors.values() == groups.a.tensors.values());
    CHECK_FALSE(groups.a.sync->meeting_due());
  }
}

TEST_CASE("a group that is missing is left out, and is in time at the next meeting", "[meetings]") {
  MetGroups groups;
  MetByHand expected(3);
  groups.train();
  std::filesystem::remove(difference_file(groups.folder.path(), 1, "c"));
  CHECK_THROWS_WITH(optim::hold_meeting(groups.folder.path(), "", optim::MissingGroups::refused),
                    ContainsSubstring("the file of c is missing"));
  const optim::HeldMeeting held = optim::hold_meeting(groups.folder.path(), "");
  CHECK(held.arrivals.present == std::vector<std::string>{"a", "b"});
  CHECK(held.arrivals.missing == std::vector<std::string>{"c"});
  expected.train({0, 1});
  CHECK_THAT(groups.a.sync->meet(), ContainsSubstring("meeting 1 of a, b"));
  groups.b.sync->meet();
  CHECK_THAT(groups.c.sync->meet(),
             ContainsSubstring("meeting 1 of a, b: the last 3 steps of group c do not count"));
  CHECK(groups.c.tensors.values() == groups.a.tensors.values());
  CHECK(differences(groups.a.tensors.values(), expected.anchor, 1e-5) == "");

  groups.train();
  CHECK(optim::hold_meeting(groups.folder.path(), "").arrivals.missing.empty());
  groups.meet();
  expected.train({0, 1, 2});
  CHECK(differences(groups.a.tensors.values(), expected.anchor, 1e-5) == "");
}

TEST_CASE("a group that begins later, or was away for long, goes on from the last meeting",
          "[meetings]") {
  const TempFolder folder;
  MetGroup a(folder.path(), "a"), away(folder.path(), "b");
  away.train();
  std::filesystem::remove(difference_file(folder.path(), 1, "b"));
  for (int meeting = 1; meeting <= 3; ++meeting) {
    a.train();
    CHECK(optim::hold_meeting(folder.path(), "").arrivals.missing.size() == 2);
    a.sync->meet();
  }
  MetGroup late(folder.path(), "c");
  CHECK_THAT(late.sync->meet(),
             ContainsSubstring("meeting 1 of a; meeting 2 of a; meeting 3 of a"));
  CHECK(late.tensors.values() == a.tensors.values());
  away.sync->meet();
  CHECK(away.tensors.values() == a.tensors.values());
  for (MetGroup* group : {&a, &away, &late}) group->train();
  CHECK(optim::hold_meeting(folder.path(), "").arrivals.missing.empty());
}

TEST_CASE("a group goes on to the same bits from any step, with its file written or not",
          "[meetings]") {
  struct Ended {
    Values values;
    std::string differences;
  };
  // Group a is stopped after so many steps of its own.
  const auto run = [](int stop, bool handed_in) {
    MetGroups groups;
    Ended ended;
    for (int meeting = 1; meeting <= 2; ++meeting) {
      while (!groups.a.sync->meeting_due()) {
        groups.a.step();
        if (groups.a.made == stop && !handed_in) groups.a.resume();
      }
      groups.train();
      if (groups.a.made == stop && handed_in) groups.a.resume();
      ended.differences += TempFolder::get(difference_file(groups.folder.path(), meeting, "a"));
      optim::hold_meeting(groups.folder.path(), "");
      groups.meet();
      if (groups.a.made == stop && handed_in) groups.a.resume();
    }
    ended.values = groups.a.tensors.values();
    return ended;
  };
  const Ended straight = run(0, false);
  // After 3 and 6, a meeting is due.
  for (const auto& [stop, handed_in] : std::vector<std::pair<int, bool>>{
           {1, false}, {3, false}, {3, true}, {4, false}, {6, false}, {6, true}}) {
    INFO("stopped after " << stop << " steps" << (handed_in ? ", with its file written" : ""));
    const Ended ended = run(stop, handed_in);
    CHECK(ended.values == straight.values);
    CHECK(ended.differences == straight.differences);
  }
}

TEST_CASE("a group that was stopped before a meeting goes on after it", "[meetings]") {
  MetGroups groups;
  groups.train();
  optim::hold_meeting(groups.folder.path(), "");
  groups.a.resume();
  CHECK(groups.a.sync->meeting_due());
  CHECK(groups.a.sync->meet() == "meeting 1 of a, b, c");
  groups.b.sync->meet();
  CHECK(groups.a.tensors.values() == groups.b.tensors.values());
}

TEST_CASE("a meeting that was stopped is held by the same call, and none is held twice",
          "[meetings]") {
  MetGroups groups;
  const std::filesystem::path& folder = groups.folder.path();
  for (int meeting = 1; meeting <= 2; ++meeting) {
    groups.train();
    const TempFolder before;
    std::filesystem::copy(folder, before.path());
    optim::hold_meeting(folder, "");
    const std::string step = TempFolder::get(step_file(folder, meeting));
    // Stopped after the momentum was written: the one before is still there.
    std::filesystem::remove(step_file(folder, meeting));
    std::filesystem::copy(
        before.path(), folder,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::skip_existing);
    optim::hold_meeting(folder, "");
    CHECK(TempFolder::get(step_file(folder, meeting)) == step);
    // The same from the beginning.
    optim::hold_meeting(before.path(), "");
    CHECK(TempFolder::get(step_file(before.path(), meeting)) == step);
    groups.meet();
  }
  CHECK_THROWS_WITH(optim::hold_meeting(folder, ""),
                    ContainsSubstring("no group has a file for meeting 3"));
  groups.folder.put(step_file("", 2).string(), "broken");
  CHECK_THROWS_WITH(optim::hold_meeting(folder, ""), ContainsSubstring("meeting 2 was held here"));
}

TEST_CASE("the momentum stays where meetings are held", "[meetings]") {
  MetGroups groups;
  groups.train();
  optim::hold_meeting(groups.folder.path(), "");
  groups.meet();
  groups.train();
  const auto momentum = groups.folder / "momentum-000001.safetensors";
  const std::string bytes = TempFolder::get(momentum);
  std::filesystem::remove(momentum);
  CHECK_THROWS_WITH(optim::hold_meeting(groups.folder.path(), ""),
                    ContainsSubstring("Hold this one there"));
  std::string other = bytes;
  other.back() = static_cast<char>(other.back() ^ 1);
  groups.folder.put("momentum-000001.safetensors", other);
  CHECK_THROWS_WITH(optim::hold_meeting(groups.folder.path(), ""),
                    ContainsSubstring("not the momentum of the last meeting"));
  groups.folder.put("momentum-000001.safetensors", bytes);
  CHECK_NOTHROW(optim::hold_meeting(groups.folder.path(), ""));
  CHECK_FALSE(std::filesystem::exists(momentum));
}

TEST_CASE("differences travel as the groups agree", "[meetings]") {
  for (const auto sent : {optim::CommDType::bf16, optim::CommDType::int8}) {
    const TempFolder folder;
    MetGroup a(folder.path(), "a", sent, {}, "a,b"), b(folder.path(), "b", sent, {}, "a,b");
    for (int meeting = 1; meeting <= 2; ++meeting) {
      for (MetGroup* group : {&a, &b}) group->train();
      const auto file = open_safetensors(difference_file(folder.path(), meeting, "a").string());
      // Two numbers; those of int8 have a scale of four bytes.
      CHECK(file->at("b").shape == Shape{sent == optim::CommDType::bf16 ? 4 : 6});
      CHECK(file->metadata().at("comm_dtype") == name_of_enum(sent));
      optim::hold_meeting(folder.path(), "");
      for (MetGroup* group : {&a, &b}) group->sync->meet();
      CHECK(a.tensors.values() == b.tensors.values());
    }
  }
}

TEST_CASE("names of groups, keys and places are checked", "[meetings]") {
  CHECK(optim::group_names("a,b_2,C-3") == std::vector<std::string>{"a", "b_2", "C-3"});
  for (const char* names : {"", "a", "a,", ",a", "a,,b", "a,a", "a,b c", "a,../b", "a,\xc3\xa9",
                            "a,123456789012345678901234567890123"}) {
    INFO(names);
    CHECK_THROWS_AS(optim::group_names(names), Error);
  }
  std::string many = "0";
  for (int i = 1; i < 1000; ++i) many += fmt::format(",{}", i);
  CHECK(optim::group_names(many).size() == 1000);
  CHECK_THROWS_WITH(optim::group_names(many + ",a"), ContainsSubstring("at most 1000 groups"));
  const TempFolder folder;
  CHECK(optim::meeting_key("").empty());
  CHECK(optim::meeting_key(folder.put("key", std::string(32, 'k') + "\n")) == std::string(32, 'k'));
  CHECK_THROWS_WITH(optim::meeting_key(folder.put("short", std::string(31, 'k') + "\n")),
                    ContainsSubstring("32 bytes or more"));
  CHECK_THROWS_WITH(MetGroup(folder / "nowhere", "a"), ContainsSubstring("it is not there"));
  TwoTensors tensors(DType::f32);
  optim::LocalSteps local{.steps = 2};
  local.place = optim::MeetingPlace{folder.path(), "a", {"a", "b"}};
  CHECK_THROWS_WITH(optim::make_gradient_sync(tensors.named(), optim::GroupRules{}, nullptr,
                                              {.local = local}, {{"count", Tensor::zeros({1})}}),
                    ContainsSubstring("'count'"));
}

TEST_CASE("a step comes only after a meeting that is due, and a run that meets cannot go back",
          "[meetings]") {
  const TempFolder folder;
  MetGroup a(folder.path(), "a");
  a.train();
  CHECK_THROWS_WITH(a.step(), ContainsSubstring("must meet before the next step"));
  CHECK_THROWS_WITH(a.sync->restart(), ContainsSubstring("cannot go back"));
}
