#include "tapegrad/nn/generation/generation.h"

#include <algorithm>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/nn/decoder_names.h"

namespace tapegrad::nn {
namespace {

// Of a recurrent layer that keeps so many numbers at each place.
std::int64_t bytes_of_place(std::int64_t numbers) {
  constexpr std::int64_t kSpacing = RecurrentStates::kSpacing;
  return bytes_of(CacheType::f32, (numbers + kSpacing - 1) / kSpacing);
}

constexpr std::int64_t kLeastShared = 16;  // positions that are worth waiting for

void check_prompt(const Tokens& prompt, std::int64_t vocab_size) {
  check(!prompt.empty(), "a prompt needs at least one token");
  for (const std::int32_t token : prompt) {
    check(token >= 0 && token < vocab_size, "the prompt's token {} is not one of the model's {}",
          token, vocab_size);
  }
}

// True for the matrices of as many experts as a token does not go to, by the number behind a name.
bool is_spare_expert(const DecoderConfig& c, const std::string& name) {
  const std::string experts = fmt::format(".{}.", decoder_names(c).in_experts.experts);
  if (name.find(experts) == std::string::npos) return false;
  const auto number = number_of<std::int64_t>(name.substr(name.rfind('.') + 1));
  return number && *number >= c.moe.top_k;
}

void check_adapter(const GenerateOptions& options, std::int64_t adapters) {
  const std::int64_t number = options.adapter.value_or(0);
  check(!options.adapter || (number >= 0 && number < adapters),
        "there is no adapter {}: the model offers {}", number, adapters);
}

void check_draft(const GenerateOptions& options, std::int64_t vocab_size) {
  const std::int64_t tokens = options.draft != nullptr ? options.draft->config.vocab_size : 0;
  check(options.draft == nullptr || tokens == vocab_size,
        "the draft has {} tokens, and the model {}", tokens, vocab_size);
}

void check_bias(const GenerateOptions& options, std::int64_t vocab_size) {
  for (const auto& [token, bias] : options.logit_bias) {
    check(token >= 0 && token < vocab_size,
          "logit_bias names token {}, which is not one of the model's {}", token, vocab_size);
  }
}

}  // namespace

GenerationCost& GenerationCost::operator+=(const GenerationCost& more) {
  prompt_tokens += more.prompt_tokens;
  tokens += more.tokens;
  reused_tokens += more.reused_tokens;
  prefill_seconds += more.prefill_seconds;
  seconds += more.seconds;
  passes += more.passes;
  pass_seconds += more.pass_seconds;
  proposed_tokens += more.proposed_tokens;
  accepted_tokens += more.accepted_tokens;
  return *this;
}

std::vector<std::span<const std::byte>> read_by_pass(const Decoder& model, const Params& params) {
  std::vector<std::span<const std::byte>> memory;
  const std::string ngrams = std::string(decoder_names(model.config).ngrams) + ".";
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    const bool looked_up = !model.config.tied && matrix == model.wte.weight.quantized;
    if (is_spare_expert(model.config, name)) continue;
    if (!looked_up && name.rfind(ngrams, 0) != 0) memory.push_back(matrix->memory());
  }
  return memory;
}

std::uint64_t bytes_of(const std::vector<std::span<const std::byte>>& memory) {
  std::uint64_t bytes = 0;
  for (const auto& part : memory) bytes += part.size();
  return bytes;
}

CacheType usual_cache(const Params& params) {
  std::uint64_t bytes = 0, weights = 0;
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    bytes += matrix->bytes();
    weights += static_cast<std::uint64_t>(matrix->out() * matrix->in());
  }
  return bytes < 3 * weights ? CacheType::f16 : CacheType::f32;
}

std::int64_t cache_bytes_per_position(const DecoderConfig& c, CacheType type) {
  const std::int64_t of_attention = 2 * bytes_of(type, c.kv_heads() * c.channels_per_head()),
                     of_conv = bytes_of(CacheType::f32, c.n_embd);
  const DeltaSizes delta = c.delta_sizes();
  const std::int64_t mixed = 2 * delta.key_heads * delta.key_size + delta.heads * delta.value_size,
                     inputs = (c.conv_kernel - 1) * (mixed + 2 * delta.heads),
                     state = delta.heads * delta.key_size * delta.value_size + inputs,
                     of_delta = bytes_of_place(state);
  const MambaSizes mamba = c.mamba_sizes();
  const std::int64_t of_mamba =
      bytes_of_place(mamba.channels() * mamba.state_size +
                     (c.conv_kernel - 1) * (mamba.mixed_channels() + mamba.heads));
  std::int64_t bytes = 0;
  for (int i = 0; i < c.n_layer; ++i) {
    bytes += c.has_delta(i) ? of_delta : c.has_conv(i) ? of_conv : 0;
    bytes += (c.has_attention(i) ? of_attention : 0) + (c.has_mamba(i) ? of_mamba : 0);
  }
  return bytes;
}

std::int64_t cached_positions(std::int64_t tokens, const DecoderConfig& config,
                              const DecoderConfig* draft) {
  const bool recurrent = config.is_recurrent() || (draft != nullptr && draft->is_recurrent());
  constexpr std::int64_t spacing = RecurrentStates::kSpacing;
  return recurrent ? (tokens + spacing - 1) / spacing * spacing : tokens;
}

Generation::Generation(const Decoder& model, const GenerationLimits& limits)
    : model_(model), limits_(limits), batch_invariant_(model.all_quantized()) {
  check(limits.max_sequences >= 1, "max_sequences must be at least 1, not {}",
        limits.max_sequences);
  check(limits.max_positions.value_or(0) >= 0, "max_positions must not be negative, as {} is",
        limits.max_positions.value_or(0));
  check(limits.prompt_chunk.value_or(1) >= 1, "prompt_chunk must be at least 1, not {}",
        limits.prompt_chunk.value_or(1));
  check(limits.kept_positions.value_or(0) >= 0, "kept_positions must not be negative, as {} is",
        limits.kept_positions.value_or(0));
  const std::int64_t channels = model.config.kv_heads() * model.config.channels_per_head();
  check(limits.cache != CacheType::q8_0 || channels % CachedPage::kBlock == 0,
        "a q8_0 cache needs keys of a multiple of {} channels, not {}; f16 does not",
        CachedPage::kBlock, channels);
}

std::int64_t Generation::position_limit() const {
  return limits_.max_positions.value_or(limits_.max_sequences *
                                        cached_positions(model_.config.block_size, model_.config));
}

// The most positions of a text that a cache has at once.
std::int64_t Generation::positions_for(std::int64_t prompt_tokens,
                                       const GenerateOptions& options) const {
  const bool slides = prompt_tokens > model_.config.block_size && options.context == Context::exact;
  return !options.kv_cache || (slides && !in_pieces()) ? 0 : longest(prompt_tokens, options);
}

// Those whose memory is set aside for it.
std::int64_t Generation::set_aside_for(std::int64_t positions,
                                       const GenerateOptions& options) const {
  return cached_positions(positions, model_.config,
                          options.draft != nullptr ? &options.draft->config : nullptr);
}

// Without a limit, there is room for max_sequences texts, whatever their drafts take.
bool Generation::fits(std::int64_t positions) const {
  return !limits_.max_positions || positions <= position_limit() - positions_;
}

// The positions that the model may come to see of a text at once.
std::int64_t Generation::longest(std::int64_t prompt_tokens, const GenerateOptions& options) const {
  const std::int64_t most = model_.config.block_size;
  // Nothing follows the last token, so that nobody needs its keys.
  const std::int64_t further = std::clamp<std::int64_t>(options.max_new_tokens - 1, 0, most);
  return std::min(most, prompt_tokens + further);
}

bool Generation::has_room(std::int64_t prompt_tokens, const GenerateOptions& options) const {
  return sequences() < limits_.max_sequences &&
         fits(set_aside_for(positions_for(prompt_tokens, options), options));
}

Generation::Id Generation::add(Tokens prompt, const GenerateOptions& options, Rng rng) {
  options.validate();
  check_prompt(prompt, model_.config.vocab_size);
  check_bias(options, model_.config.vocab_size);
  check_draft(options, model_.config.vocab_size);
  check_adapter(options, model_.adapters);
  check(!options.prompt_logprobs || std::ssize(prompt) <= model_.config.block_size,
        "prompt_logprobs are those of a prompt that the model sees at once, of at most {} tokens, "
        "not {}",
        model_.config.block_size, prompt.size());
  check(options.context == Context::exact || model_.config.block_size >= kSinks + 2,
        "context shift keeps the first {} tokens and half of the others, for which a block_size of "
        "{} is too small",
        kSinks, model_.config.block_size);
  check(sequences() < limits_.max_sequences,
        "[generation] {} sequences are running, which is max_sequences", sequences());
  const std::int64_t tokens = std::ssize(prompt), most = positions_for(tokens, options),
                     needed = set_aside_for(most, options);
  check(fits(needed),
        "[generation] {} tokens and {} new ones need {} positions in the cache, of which {} of {} "
        "are free",
        tokens, options.max_new_tokens, needed, position_limit() - positions_, position_limit());
  Sequence s{RunningText(std::move(prompt), options, std::move(rng)), KVCache(most, limits_.cache),
             most, needed};
  share(next_id_, s);  // before room is made of what it may share
  share_draft(s);
  sequences_.emplace(next_id_, std::move(s));
  positions_ += needed;
  make_room_for_running();
  return next_id_++;
}

const Generation::Sequence& Generation::find(Id id) const {
  const auto found = sequences_.find(id);
  check(found != sequences_.end(), "[generation] there is no sequence {}", id);
  return found->second;
}

void Generation::remove(Id id) {
  find(id);
  Sequence s = std::move(sequences_.extract(id).mapped());
  positions_ -= s.set_aside;
  if (may_share(s) && s.cache.length() >= kLeastShared) {
    Tokens read = s.text.tokens();
    read.resize(static_cast<std::size_t>(s.cache.length()));
    kept_.keep(std::move(read), kind_of(s), std::move(s.cache));
  }
  keep_draft(s);
  make_room_for_running();
}

void Generation::make_room_for_running() {
  std::int64_t taken = positions_;
  if (!limits_.max_positions) {  // drafts may have set aside more than there is room for
    taken = 0;
    for (const auto& [id, s] : sequences_) taken += s.positions;
  }
  const std::int64_t free = position_limit() - taken;
  const std::int64_t most = std::min(free, limits_.kept_positions.value_or(free));
  kept_.shrink(most);
  kept_drafts_.shrink(most);
}

std::int64_t Generation::kept_positions() const {
  std::set<const CachedPage*> counted;
  return kept_.positions(counted);
}

std::int64_t Generation::used_positions() const {
  std::set<const CachedPage*> counted;
  std::int64_t positions = kept_.positions(counted);
  for (const auto& [id, s] : sequences_) positions += positions_of(s.cache, counted);
  return positions;
}

// True if its cache holds its first tokens, with the bits that others give them.
bool Generation::may_share(const Sequence& s) const {
  return batch_invariant_ && s.text.options().kv_cache && s.dropped == 0;
}

// Equal tokens have equal keys and values in sequences of one kind.
KeptCaches::Kind Generation::kind_of(const Sequence& s) const {
  return {s.text.options().adapter, !model_.config.same_angles(s.positions, 0)};
}

// A prompt that is to be scored needs the logits at all positions.
bool Generation::may_begin_shared(const Sequence& s) const {
  return may_share(s) && s.text.new_tokens() == 0 && !s.text.options().prompt_logprobs &&
         s.seen() <= model_.config.block_size;
}

// Gives a sequence that has read nothing by itself the longest beginning that there is.
void Generation::share(Id id, Sequence& s) {
  if (!may_begin_shared(s)) return;
  // The last token is read in any case, since its logits are needed.
  const auto wanted = std::span(s.text.tokens()).first(s.text.tokens().size() - 1);
  KeptCaches::Match best = kept_.find(wanted, kind_of(s));
  for (const auto& [other_id, other] : sequences_) {
    if (other_id == id || !may_share(other) || kind_of(s) != kind_of(other)) continue;
    const std::int64_t common =
        other.cache.reachable(common_beginning(wanted, other.text.tokens()));
    if (common > best.length) best = {&other.cache, common};
  }
  const std::int64_t before = s.cache.length();
  if (best.length <= before) return;
  s.cache = best.cache->first(best.length, s.positions);
  cost_.reused_tokens += best.length - before;
}

// Gives a sequence's draft the longest beginning that a removed one has read. The bits of a draft's
// logits change no text, so that this needs no quantised model.
void Generation::share_draft(Sequence& s) {
  if (s.text.options().draft == nullptr) return;
  if (draft_ != s.text.options().draft) kept_drafts_.shrink(0);
  draft_ = s.text.options().draft;
  const KeptCaches::Kind kind{.is_long = !draft_->config.same_angles(s.positions, 0)};
  const KeptCaches::Match best = kept_drafts_.find(s.text.tokens(), kind);
  if (best.length < kLeastShared) return;
  s.text.proposer()->begin_with(best.cache->first(best.length, s.positions));
}

void Generation::keep_draft(Sequence& s) {
  if (draft_ == nullptr || s.text.options().draft != draft_) return;
  KVCache cache = s.text.proposer()->take_cache();
  if (cache.length() < kLeastShared) return;
  Tokens read = s.text.tokens();
  read.resize(static_cast<std::size_t>(std::min<std::int64_t>(cache.length(), std::ssize(read))));
  cache.truncate(std::ssize(read));
  const KeptCaches::Kind kind{.is_long = !draft_->config.same_angles(s.positions, 0)};
  kept_drafts_.keep(std::move(read), kind, std::move(cache));
}

// True if a sequence that was added before is reading more of the same beginning.
bool Generation::waits(Id id, const Sequence& s) const {
  if (!may_begin_shared(s)) return false;
  const auto wanted = std::span(s.text.tokens()).first(s.text.tokens().size() - 1);
  return std::any_of(sequences_.begin(), sequences_.lower_bound(id), [&](const auto& entry) {
    const Sequence& other = entry.second;
    if (other.text.end() || !may_share(other) || kind_of(s) != kind_of(other)) return false;
    std::int64_t common = common_beginning(wanted, other.text.tokens());
    if (model_.config.is_recurrent()) common -= common % RecurrentStates::kSpacing;
    return common >= s.cache.length() + kLeastShared && other.cache.length() < common;
  });
}

Generation::Taken Generation::take(Id id) {
  find(id);
  Sequence& s = sequences_.at(id);
  std::vector<NewToken> tokens = s.text.take_new();
  // Of a text that has failed, the next call says so.
  const auto end = s.text.failed() ? std::nullopt : s.text.end();
  return {std::move(tokens), end, s.text.take_prompt()};
}

}  // namespace tapegrad::nn
