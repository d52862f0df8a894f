#include "tapegrad/apps/serve/models/followed_model.h"

#include <sys/stat.h>

#include <new>
#include <utility>

#include "tapegrad/base/terminal.h"
#include "tapegrad/run/folder/kept_models.h"

namespace tapegrad::serve {
namespace {

bool is_same_model(const run::TextModel& a, const run::TextModel& b) {
  nn::DecoderConfig config = a.gpt.config;
  config.dropout = b.gpt.config.dropout;  // of training alone, and may change
  if (config != b.gpt.config || a.tokenizer.kind() != b.tokenizer.kind()) return false;
  for (data::Token token = 0; token < config.vocab_size; ++token) {
    if (a.tokenizer.token_bytes(token) != b.tokenizer.token_bytes(token)) return false;
  }
  return true;
}

}  // namespace

FollowedModel::FollowedModel(std::filesystem::path run, std::string checkpoint,
                             std::function<run::TextModel()> load)
    : run_(std::move(run)),
      checkpoint_(std::move(checkpoint)),
      load_(std::move(load)),
      known_(newest()),
      model_(load_()) {
  check(known_.has_value(), "--follow: {} is no run folder with a checkpoint {}", run_.string(),
        run::model_file(run_, checkpoint_).filename().string());
}

std::optional<FollowedModel::File> FollowedModel::newest() const {
  struct stat about {};
  if (::stat(run::model_file(run_, checkpoint_).c_str(), &about) != 0) return std::nullopt;
  return File{.device = about.st_dev,
              .number = about.st_ino,
              .seconds = about.st_mtim.tv_sec,
              .nanoseconds = about.st_mtim.tv_nsec,
              .bytes = about.st_size};
}

bool FollowedModel::renew() {
  const auto before = known_;
  try {
    const auto now = newest();
    if (!now || now == known_) return false;
    known_ = now;  // a broken file is not read again and again
    run::TextModel newer = load_();
    check(is_same_model(newer, model_), "{}: this is another model now", run_.string());
    // All but the config, which other threads read, and which stays.
    model_.params = std::move(newer.params);
    model_.gpt.wte = std::move(newer.gpt.wte);
    model_.gpt.wpe = std::move(newer.gpt.wpe);
    model_.gpt.ngrams = std::move(newer.gpt.ngrams);
    model_.gpt.h = std::move(newer.gpt.h);
    model_.gpt.ln_f = std::move(newer.gpt.ln_f);
    model_.gpt.lm_head = std::move(newer.gpt.lm_head);
    return true;
  } catch (const std::bad_alloc&) {
    known_ = before;  // there may be room for it later
    return false;
  } catch (const std::exception& error) {
    print_error(fmt::format("note: the newest checkpoint is not read: {}\n", error.what()));
    return false;
  }
}

}  // namespace tapegrad::serve
