#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/kept_caches.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/generation/running_text.h"

namespace tapegrad::nn {

struct GenerationLimits {
  std::int64_t max_sequences = 16;  // that run at once; beyond about 16, more are no faster
  // Positions that the caches of all sequences may have room for [those of max_sequences texts of
  // block_size]. One takes cache_bytes_per_position(), and a text takes cached_positions().
  std::optional<std::int64_t> max_positions = {};
  // How keys and values are stored. Shorter ones round, and so change texts a little.
  CacheType cache = CacheType::f32;
  // The most tokens of prompts that one step prefills, and reads of windows of texts beyond
  // block_size, all together; the other sequences wait meanwhile. Sequences that have something to
  // read take turns. [all of them, or, of a quantised model, kPrefillChunk, and kPrefillChunkBeside
  // while other texts go on]
  std::optional<std::int64_t> prompt_chunk = {};
  // The most positions of which keys and values stay when their sequences are removed, for prompts
  // that begin as these texts did; of a draft, as many. Sequences that run come first: what these
  // do not need of max_positions is what may be kept. [that]
  std::optional<std::int64_t> kept_positions = {};
};
inline constexpr std::int64_t kPrefillChunk = 512, kPrefillChunkBeside = 128;

// The cost of the steps so far. A step that prefills and writes counts for both, by the time
// of each.
struct GenerationCost {
  std::int64_t prompt_tokens = 0, tokens = 0;  // read of prompts; made after the first of each text
  std::int64_t reused_tokens = 0;  // of prompts, which others had read: not among prompt_tokens
  double prefill_seconds = 0, seconds = 0;
  std::int64_t passes = 0;  // over nothing but the newest tokens of all texts together
  double pass_seconds = 0;  // of these alone
  std::int64_t proposed_tokens = 0, accepted_tokens = 0;  // by speculative decoding

  GenerationCost& operator+=(const GenerationCost& more);
};
// The quantised matrices that a pass reads: all but an embedding, of which it reads rows, unless it
// is the head, too; and of experts as many as a token goes to. None of a model that is not
// quantised.
std::vector<std::span<const std::byte>> read_by_pass(const Decoder& model, const Params& params);
std::uint64_t bytes_of(const std::vector<std::span<const std::byte>>& memory);
// How keys and values are best stored where nobody says how: as f16 beside quantised weights that
// are shorter than f32, which are rounded much more than that; otherwise as f32.
CacheType usual_cache(const Params& params);
// Bytes of keys and values that a cache has for each position, of states of convolutions, which are
// f32, and of those of recurrent layers, in the mean over the positions between two places
// (RecurrentStates).
std::int64_t cache_bytes_per_position(const DecoderConfig& config, CacheType type = CacheType::f32);
// How many positions' memory the cache of so many tokens may take: more than one each where the
// model, or a draft beside it, is recurrent, since a state takes that of all positions up to the
// next place, however few there are.
std::int64_t cached_positions(std::int64_t tokens, const DecoderConfig& config,
                              const DecoderConfig* draft = nullptr);

// Generates many texts side by side. Between steps, sequences join and leave.
//
//   Generation generation(model);
//   const auto id = generation.add(prompt, {.max_new_tokens = 50}, Rng(1));
//   while (generation.step()) {
//     for (const NewToken& t : generation.take(id).tokens) show(t.token);
//   }
//
// Texts may have different adapters (GenerateOptions::adapter): they share each pass over the
// model's own weights, and keys and values with those of the same adapter alone.
//
// A sequence becomes, to the bit, the text that it becomes alone with the same generator, whatever
// others run beside it and whatever the number of threads. If all matrices are quantised, the bits
// do not depend on how its prompt is cut into pieces either. Then prompts share what they begin
// with (LongRoPE's long texts with long ones): a sequence goes on behind the keys and values of the
// longest beginning that a sequence here, or a removed one, has read; if another one is reading a
// longer one, it waits for that. Otherwise what is read in several pieces gives the same logits up
// to rounding, and nothing is shared.
//
// A draft (GenerateOptions::draft) has keys and values of its own, for no more positions than those
// of its texts. With Context::shift, it has as many as it can see.
//
// Memory follows the tokens that there are: keys and values lie in pages, which sequences share
// (CachedPage in cached_page.h). All the same, add() sets the positions aside that a text may
// come to need, so that each sequence that was added can end: nobody's keys need to be dropped.
//
// With a cache, logits are those without one up to rounding (5e-6 of the largest in f32, tested).
// The cache helps until a text has block_size tokens. After that, the model sees the last
// block_size ones, and each new token pushes the first one out. This moves all positions, so that
// no key or value stays what it was: the sequence computes all of them for each token. The others
// need not wait for all of that: see GenerationLimits::prompt_chunk. Context::shift is another way,
// which moves the positions once in many tokens.
//
// No tape records anything. One thread at a time may use an object. The model must outlive it.
class Generation {
 public:
  using Id = std::int64_t;

  explicit Generation(const Decoder& model, const GenerationLimits& limits = {});

  // Takes up a prompt of at least one token. Each token draws one multinomial from `rng`; a greedy
  // one draws nothing. Errors: invalid options or tokens; there are
  // max_sequences; the caches would need more than max_positions; block_size is too small for
  // Context::shift.
  Id add(Tokens prompt, const GenerateOptions& options, Rng rng);
  // True if add() has room for a prompt of so many tokens.
  bool has_room(std::int64_t prompt_tokens, const GenerateOptions& options) const;

  // Gives each running sequence a token, several if lookup or a draft proposed right ones, or reads
  // a piece of its prompt. False if none was running.
  // After an Error, the next call computes again what this one was to; a text that has shifted may
  // go on in another way, since what it had seen of the tokens that it dropped is lost.
  bool step();

  struct Taken {
    std::vector<NewToken> tokens;
    std::optional<TextEnd> end;  // none while the sequence runs
    // With GenerateOptions::prompt_logprobs: the prompt's tokens from its second one on, as far as
    // they have been read, with `top` of that many. All are there before a new token is.
    std::vector<NewToken> prompt;
  };
  // What there is since the last call. Errors: there is no such sequence; what has ended this text
  // alone: what its mask has thrown, or BrokenLogits. Tokens from before that are taken first:
  // where steps have ended and a text has no `end`, the next call says why.
  Taken take(Id id);
  // Forgets a sequence, whether it has ended or not. Its place is free at once, and so is its
  // memory, but for what GenerationLimits::kept_positions allows to keep.
  void remove(Id id);

  // Forgets the keys and values of removed sequences: those of other weights, say.
  void forget_kept() { kept_.shrink(0); }

  const GenerationLimits& limits() const { return limits_; }
  const GenerationCost& cost() const { return cost_; }
  // Positions for which memory is there now: those of sequences and those that are kept. One that
  // several share counts once.
  std::int64_t used_positions() const;
  std::int64_t kept_positions() const;  // of these, those of removed sequences

  std::int64_t sequences() const { return std::ssize(sequences_); }  // added and not removed
  std::int64_t positions() const { return positions_; }              // that these may come to need

 private:
  struct Sequence {
    RunningText text;
    KVCache cache;
    std::int64_t positions = 0;  // that the cache may come to have
    std::int64_t set_aside = 0;  // of which memory was set aside
    std::int64_t dropped = 0;    // tokens behind the first sinks() that are not seen
    std::int64_t piece = 0;      // tokens that the step in progress reads alone
    bool begun = false;          // to read; not while it waits for another one

    bool shifts() const { return text.options().context == Context::shift; }
    std::int64_t sinks() const { return shifts() ? kSinks : 0; }
    std::int64_t seen() const { return std::ssize(text.tokens()) - dropped; }
    // True if each token moves all of the window.
    bool slides() const { return dropped > 0 && !shifts(); }
  };
  // A sequence and the logits (rows, V) of its next token and of those behind the proposed ones.
  struct Ready {
    Sequence* sequence;
    std::span<const float> logits;
    std::int64_t accepted = 0;  // of the proposed tokens
  };

  const Sequence& find(Id id) const;
  std::int64_t longest(std::int64_t prompt_tokens, const GenerateOptions& options) const;
  std::int64_t positions_for(std::int64_t prompt_tokens, const GenerateOptions& options) const;
  std::int64_t set_aside_for(std::int64_t positions, const GenerateOptions& options) const;
  bool fits(std::int64_t positions) const;
  std::int64_t position_limit() const;
  void make_room(Sequence& s) const;
  void propose(std::span<Sequence* const> sequences) const;
  bool in_pieces() const { return limits_.prompt_chunk || batch_invariant_; }
  bool may_share(const Sequence& s) const;
  KeptCaches::Kind kind_of(const Sequence& s) const;
  bool may_begin_shared(const Sequence& s) const;
  void share(Id id, Sequence& s);
  void share_draft(Sequence& s);
  void keep_draft(Sequence& s);
  bool waits(Id id, const Sequence& s) const;
  void make_room_for_running();
  std::int64_t unread(const Sequence& s) const;
  std::vector<Sequence*> next_to_read(bool others);
  void score_prompt(RunningText& text, const Tensor& states, std::int64_t first) const;
  Tensor read_whole(const Sequence& s, const Tokens& window) const;
  Tensor read_alone(Sequence& s) const;
  std::vector<Tensor> prefill_apart(std::span<Sequence* const> sequences) const;
  void prefill_apart(std::span<Sequence* const> sequences, double& seconds,
                     std::vector<Tensor>& logits, std::vector<Sequence*>& ready) const;
  bool may_join(const Sequence& s) const;
  Tokens next_tokens(const Sequence& s) const;
  Tensor read_together(std::span<Sequence* const> sequences, std::vector<Sequence*>& ready) const;
  void read_together(std::vector<Sequence*>& sequences, std::vector<Tensor>& logits,
                     std::vector<Sequence*>& ready);
  std::vector<Tensor> read(std::vector<Sequence*>& ready);
  void choose(Ready& ready) const;

  const Decoder& model_;
  GenerationLimits limits_;
  bool batch_invariant_;
  KeptCaches kept_, kept_drafts_;
  const Decoder* draft_ = nullptr;  // whose caches are kept: that of the newest text with one
  Id read_last_ = 0;                // the sequence after which the next turn to read begins
  std::map<Id, Sequence> sequences_;
  Id next_id_ = 1;
  std::int64_t positions_ = 0;
  GenerationCost cost_;
};

}  // namespace tapegrad::nn
