#include "tapegrad/apps/events/tensorboard_writer.h"

#include <event.pb.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <charconv>
#include <chrono>
#include <map>

#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::events {
namespace {

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xff);
  return text;
}

std::string checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc32c;
  crc32c.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t crc = crc32c.checksum();
  return little_endian(((crc >> 15 | crc << 17) + 0xa282ead8U) & 0xffffffffU, 4);
}

// TensorBoard shows scalars in groups, by the word before the slash.
std::string tag_of(const std::string& name) {
  static const std::map<std::string, std::string> kTags = {
      {"loss", "loss/step"},
      {"train_loss", "loss/train"},
      {"val_loss", "loss/val"},
      {"final_val_loss", "loss/final_val"},
      {"ms", "speed/ms"},
      {"tokens_per_second", "speed/tokens_per_second"},
      {"cpu_percent", "machine/cpu_percent"},
      {"memory_percent", "machine/memory_percent"}};
  const auto known = kTags.find(name);
  return known == kTags.end() ? name : known->second;
}

std::optional<double> number_of(const run::Value& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>) {
          return static_cast<double>(v);
        } else {
          return std::nullopt;
        }
      },
      value);
}

// TensorBoard takes texts for Markdown, in which lines behind four spaces are shown as they are.
std::string as_markdown(const std::string& text) {
  Utf8Stream stream;
  std::string valid = stream.push(text);
  valid += stream.flush();
  std::string indented = "    ";
  for (const char c : valid) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  return indented;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[65] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "host";
  std::string host = name;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.';
  };
  std::replace_if(
      host.begin(), host.end(), [&](char c) { return !is_plain(c); }, '_');
  return host;
}

// TensorBoard reads files in the order of their names: a file of this second must not come before
// one that is there.
std::string next_file_name(const std::filesystem::path& folder) {
  auto seconds = static_cast<std::int64_t>(now());
  for (const std::string& other : run::event_files(folder)) {
    const char* digits = other.data() + run::kEventFile.size();
    std::int64_t theirs = 0;
    std::from_chars(digits, other.data() + other.size(), theirs);
    constexpr std::int64_t most = 9'999'999'998;  // a foreign name may have any number
    if (theirs <= most) seconds = std::max(seconds, theirs + 1);
  }
  return fmt::format("{}{:010}.{}.{}", run::kEventFile, seconds, host_name(), ::getpid());
}

void add_number(Summary& summary, const std::string& tag, double number) {
  Summary::Value& value = *summary.add_value();
  value.set_tag(tag);
  value.set_simple_value(static_cast<float>(number));
}

void add_text(Summary& summary, const std::string& tag, const std::string& text, bool first) {
  Summary::Value& value = *summary.add_value();
  value.set_tag(tag);
  if (first) {
    value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
    value.mutable_metadata()->set_data_class(Metadata::TENSOR);
  }
  Tensor& tensor = *value.mutable_tensor();
  tensor.set_dtype(Tensor::STRING);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.add_string_val(as_markdown(text));
}

Event event_at(std::int64_t step) {
  Event event;
  event.set_wall_time(now());
  event.set_step(step);
  return event;
}

}  // namespace

std::string record_of(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return length + checksum(length) + std::string(bytes) + checksum(bytes);
}

void TensorboardWriter::open() {
  file_ = std::make_unique<AppendedFile>(folder_ / next_file_name(folder_));
  Event version = event_at(0), start = event_at(first_step_);
  version.set_file_version("brain.Event:2");
  start.mutable_session_log()->set_status(SessionLog::START);
  file_->append(record_of(version.SerializeAsString()) + record_of(start.SerializeAsString()));
}

template <class Fill>
void TensorboardWriter::write(std::int64_t step, const Fill& fill) {
  if (failed_) return;
  Event event = event_at(step);
  fill(*event.mutable_summary());
  if (event.summary().value_size() == 0) return;
  try {
    if (!file_) open();
    file_->append(record_of(event.SerializeAsString()));
  } catch (const Error& error) {
    failed_ = true;
    print_error(
        fmt::format("warning: {}. Training goes on without --tensorboard's file\n", error.what()));
  }
}

void TensorboardWriter::metrics(const run::RunFolder::Metrics& line) {
  std::int64_t step = 0;
  for (const auto& [name, value] : line) {
    if (name == "iteration") step = static_cast<std::int64_t>(number_of(value).value_or(0));
  }
  write(step, [&](Summary& summary) {
    for (const auto& [name, value] : line) {
      if (name == "iteration") continue;
      if (const auto number = number_of(value)) add_number(summary, tag_of(name), *number);
      if (const auto* text = std::get_if<std::string>(&value))
        add_text(summary, tag_of(name), *text, texts_.insert(name).second);
    }
  });
}

void TensorboardWriter::layers(std::int64_t iteration, const std::vector<run::LayerMeans>& layers) {
  write(iteration, [&](Summary& summary) {
    for (const run::LayerMeans& l : layers) {
      add_number(summary, "gradient/" + l.name, l.gradient);
      add_number(summary, "weight/" + l.name, l.weight);
      add_number(summary, "update/" + l.name, l.update);
    }
  });
}

}  // namespace tapegrad::events
