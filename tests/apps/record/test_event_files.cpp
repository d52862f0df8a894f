// Event files, read by what their format says and by nothing of the writer's.

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "tapegrad/apps/events/tensorboard_writer.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;
using tapegrad::events::record_of;

namespace {

// CRC-32C bit by bit: polynomial 0x1EDC6F41, reflected.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
  }
  return ~crc;
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + static_cast<std::size_t>(i)));
  return value;
}

void check_crc(std::string_view bytes, std::uint64_t masked) {
  const auto rotated = static_cast<std::uint32_t>(masked - 0xa282ead8U);
  CHECK(std::rotl(rotated, 15) == crc32c(bytes));
}

std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    REQUIRE(file.size() >= 16);
    const auto size = static_cast<std::size_t>(number_at(file, 0, 8));
    check_crc(file.substr(0, 8), number_at(file, 8, 4));
    REQUIRE(file.size() >= size + 16);
    records.emplace_back(file.substr(12, size));
    check_crc(records.back(), number_at(file, 12 + size, 4));
    file.remove_prefix(16 + size);
  }
  return records;
}

// A field of a message of protocol buffers: a number, or bytes.
struct Field {
  std::uint64_t number = 0;
  std::string bytes;
};
using Message = std::multimap<int, Field>;

Message parse(std::string_view bytes) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return value;
    }
  };
  Message message;
  while (at < bytes.size()) {
    const std::uint64_t key = varint();
    Field field;
    const auto fixed = [&](int size) {
      field.number = number_at(bytes, at, size);
      at += static_cast<std::size_t>(size);
    };
    switch (key & 7) {
      case 0:
        field.number = varint();
        break;
      case 1:
        fixed(8);
        break;
      case 5:
        fixed(4);
        break;
      default: {
        REQUIRE((key & 7) == 2);
        const auto size = static_cast<std::size_t>(varint());
        field.bytes = bytes.substr(at, size);
        at += size;
      }
    }
    message.emplace(static_cast<int>(key >> 3), field);
  }
  return message;
}

const Field* find(const Message& message, int number) {
  const auto at = message.find(number);
  return at == message.end() ? nullptr : &at->second;
}

// TensorBoard's view of the files of a folder: a START voids its step and later ones.
struct Shown {
  std::map<std::string, std::vector<std::pair<std::uint64_t, double>>> scalars;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::string>>> texts;

  explicit Shown(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("events.out.tfevents.", 0) == 0) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) read(records_of(TempFolder::get(file)));
  }
  std::vector<std::uint64_t> steps(const std::string& tag) const {
    std::vector<std::uint64_t> all;
    const auto at = scalars.find(tag);
    if (at == scalars.end()) return all;
    for (const auto& [step, value] : at->second) all.push_back(step);
    return all;
  }

 private:
  void read(const std::vector<std::string>& records) {
    REQUIRE(!records.empty());
    const Message first = parse(records[0]);
    REQUIRE(find(first, 3) != nullptr);
    CHECK(find(first, 3)->bytes == "brain.Event:2");
    for (const std::string& record : records) {
      const Message event = parse(record);
      const double time = std::bit_cast<double>(find(event, 1)->number);
      CHECK(time > 1.7e9);
      const std::uint64_t step = find(event, 2) == nullptr ? 0 : find(event, 2)->number;
      if (const Field* log = find(event, 7)) {
        CHECK(find(parse(log->bytes), 1)->number == 1);
        forget(scalars, step);
        forget(texts, step);
      }
      if (const Field* summary = find(event, 5)) {
        const Message values = parse(summary->bytes);
        for (const auto& [number, value] : values) add(step, parse(value.bytes));
      }
    }
  }
  void add(std::uint64_t step, const Message& value) {
    const std::string tag = find(value, 1)->bytes;
    if (const Field* number = find(value, 2)) {
      scalars[tag].emplace_back(step,
                                std::bit_cast<float>(static_cast<std::uint32_t>(number->number)));
      return;
    }
    const Message tensor = parse(find(value, 8)->bytes);
    CHECK(find(tensor, 1)->number == 7);  // DT_STRING
    texts[tag].emplace_back(step, find(tensor, 8)->bytes);
    if (texts[tag].size() > 1) return;
    REQUIRE(find(value, 9) != nullptr);
    const Message metadata = parse(find(value, 9)->bytes);
    CHECK(find(parse(find(metadata, 1)->bytes), 1)->bytes == "text");
  }
  template <class Tags>
  static void forget(Tags& tags, std::uint64_t from) {
    for (auto& [tag, points] : tags) {
      std::erase_if(points, [&](const auto& point) { return point.first >= from; });
    }
  }
};

}  // namespace

TEST_CASE("records of event files have their length and checksums", "[events]") {
  // The CRC-32C of 32 zeros is in RFC 3720, B.4.
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(1000, '\xff')}) {
    CHECK(records_of(record_of(bytes)) == std::vector<std::string>{bytes});
  }
}

TEST_CASE("--tensorboard writes what metrics.jsonl and layers.jsonl have, and changes nothing else",
          "[events]") {
  const Args more = {"--layer-stats", "3", "--sample-interval", "4", "--sample-prompt", "the"};
  const TinyRun run(8, more + Args{"--tensorboard"});
  const auto plain = run.folder / "plain";
  check_ended_well(train(tiny_run(run.corpus, plain, 8) + more));
  CHECK(same_model(plain, run.run));
  CHECK(TempFolder::get(plain / "layers.jsonl") == run.file("layers.jsonl"));

  const Shown shown(run.run);
  using Steps = std::vector<std::uint64_t>;
  CHECK(shown.steps("loss/step") == Steps{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(shown.steps("loss/val") == Steps{0, 5, 8});
  CHECK(shown.steps("loss/train") == Steps{0, 5, 8});
  CHECK(shown.steps("loss/final_val") == Steps{8});
  CHECK(shown.steps("gradient/h.0.attn.c_attn") == Steps{0, 3, 6});
  CHECK(shown.steps("update/lm_head") == Steps{0, 3, 6});
  for (const char* tag : {"lr", "norm", "speed/ms", "speed/tokens_per_second", "perplexity",
                          "bits_per_byte", "weight/wte"}) {
    INFO(tag);
    CHECK(!shown.steps(tag).empty());
  }
  REQUIRE(shown.texts.count("sample") == 1);
  const auto& samples = shown.texts.at("sample");
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].first == 4);
  CHECK(samples[0].second.rfind("    the", 0) == 0);

  // The same numbers, as far as a float has them.
  const std::string metrics = run.file("metrics.jsonl");
  const std::size_t at = metrics.rfind("\"val_loss\":") + 11;
  CHECK(shown.scalars.at("loss/val").back().second == Approx(std::stod(metrics.substr(at))));
}

TEST_CASE("a resume goes on with event files, and --overwrite removes them", "[events]") {
  const TinyRun run(7, {"--tensorboard"});
  // A step that the checkpoint does not have, as of a run that was killed.
  tapegrad::events::TensorboardWriter late(run.run, 7);
  late.metrics({{"iteration", std::int64_t{9}}, {"loss", 77.0}});
  check_ended_well(train(resume_run(run.run, 11)));
  const Shown shown(run.run);
  CHECK(shown.steps("loss/step") == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for (const auto& [step, value] : shown.scalars.at("loss/step")) CHECK(value < 10);
  // That of step 7 was the first run's last: metrics.jsonl has lost it, too.
  CHECK(shown.steps("loss/val") == std::vector<std::uint64_t>{0, 5, 10, 11});

  check_ended_well(train(tiny_run(run.corpus, run.run, 2) + Args{"--overwrite"}));
  CHECK(Shown(run.run).scalars.empty());
}

TEST_CASE("a file that cannot be written ends no training", "[events]") {
  const TempFolder folder;
  tapegrad::events::TensorboardWriter writer(folder / "missing", 0);
  writer.metrics({{"iteration", std::int64_t{1}}, {"loss", 1.0}});
  writer.metrics({{"iteration", std::int64_t{2}}, {"loss", 1.0}});
  CHECK_FALSE(fs::exists(folder / "missing"));
}

TEST_CASE("texts of any bytes become UTF-8, and numbers that are not finite stay", "[events]") {
  const TempFolder folder;
  {
    tapegrad::events::TensorboardWriter writer(folder.path(), 0);
    writer.metrics({{"iteration", std::int64_t{1}}, {"sample", std::string("a\n\xff\xc3")}});
    writer.metrics({{"iteration", std::int64_t{2}}, {"norm", INFINITY}, {"skipped", true}});
    writer.metrics({{"iteration", std::int64_t{3}}});
  }
  const Shown shown(folder.path());
  CHECK(shown.texts.at("sample").at(0).second == "    a\n    \xef\xbf\xbd\xef\xbf\xbd");
  CHECK(shown.scalars.at("norm").at(0).second == INFINITY);
  CHECK(shown.scalars.at("skipped").at(0).second == 1);
}
