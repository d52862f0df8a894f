#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/generation/lookup.h"
#include "tapegrad/nn/generation/pick_token.h"

namespace tapegrad::nn {

struct GenerationLimits {
  std::int64_t max_sequences = 16;  // that run at once; beyond about 16, more are no faster
  // Positions that the caches of all sequences may have room for [max_sequences · block_size]. One
  // takes 2·n_layer·(channels of keys) numbers of the model's dtype.
  std::optional<std::int64_t> max_positions = {};
  // The most tokens that one step reads of a prompt, or of the window of a text beyond block_size;
  // the other sequences wait meanwhile. What is read in several pieces gives the same logits up to
  // rounding.
  std::optional<std::int64_t> prompt_chunk = {};  // [all of them]
};

struct NewToken {
  std::int32_t token;
  double logprob = 0;  // under the model alone, if GenerateOptions::logprobs asks for it
};

// What steps have cost so far. A step that reads prompts and writes counts for both, by the time of
// each.
struct GenerationCost {
  std::int64_t prompt_tokens = 0, tokens = 0;  // read of prompts; made after the first of each text
  double prompt_seconds = 0, seconds = 0;
  std::int64_t passes = 0;  // over the newest tokens of all texts together
  double pass_seconds = 0;  // of these alone
};
// The packed matrices that a pass reads: all but an embedding, of which it reads rows, unless it is
// the head, too. None of a model that is not packed.
std::vector<std::span<const std::byte>> read_by_pass(const Decoder& model, const Params& params);
std::uint64_t bytes_of(const std::vector<std::span<const std::byte>>& memory);
// Bytes of keys and values that a cache has for each position.
std::int64_t cache_bytes_per_position(const DecoderConfig& config);

enum class TextEnd { length, stop_token };  // max_new_tokens were made, or a stop token was chosen

// Generates many texts side by side. Between steps, sequences join and leave.
//
//   Generation generation(model);
//   const auto id = generation.add(prompt, {.max_new_tokens = 50}, Rng(1));
//   while (generation.step()) {
//     for (const NewToken& t : generation.take(id).tokens) show(t.token);
//   }
//
// A sequence becomes, to the bit, the text that it becomes alone with the same generator, whatever
// others run beside it and whatever the number of threads: the newest tokens of all sequences share
// a forward pass whose products keep rows apart (RowsApart in ops.h), while each piece of a prompt
// of more than one token has a pass of its own.
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

  // Takes up a prompt of at least one token. Errors: invalid options or tokens; there are
  // max_sequences; the caches would need more than max_positions; block_size is too small for
  // Context::shift.
  Id add(Tokens prompt, const GenerateOptions& options, Rng rng);
  // Whether add() has room for a prompt of so many tokens.
  bool has_room(std::int64_t prompt_tokens, const GenerateOptions& options) const;

  // Gives each running sequence a token, several if GenerateOptions::lookup guessed right, or reads
  // a piece of its prompt. False if none was running.
  // After an Error, the next call computes again what this one was to; a text that has shifted may
  // go on in another way, since what it had seen of the tokens that it dropped is lost.
  bool step();

  struct Taken {
    std::vector<NewToken> tokens;
    std::optional<TextEnd> end;  // none while the sequence runs
  };
  // The tokens since the last call. Error if there is no such sequence.
  Taken take(Id id);
  // The generator as it is after the tokens so far. Each token draws one multinomial; a greedy one
  // draws nothing.
  const Rng& rng(Id id) const { return find(id).rng; }
  // Forgets a sequence, whether it has ended or not. Its place and its memory are free at once.
  void remove(Id id);

  const GenerationCost& cost() const { return cost_; }

  std::int64_t sequences() const { return std::ssize(sequences_); }  // added and not removed
  std::int64_t positions() const { return positions_; }              // that these may come to need

 private:
  struct Sequence {
    Tokens text;
    GenerateOptions options;
    Rng rng;
    KVCache cache;
    std::int64_t prompt = 0, positions = 0;  // tokens; positions that were set aside
    std::int64_t dropped = 0;                // tokens behind the first sinks() that are not seen
    Lookup lookup = {};
    Tokens proposed = {};              // tokens that the step in progress checks
    std::vector<NewToken> fresh = {};  // not taken yet
    std::optional<TextEnd> end = {};

    bool shifts() const { return options.context == Context::shift; }
    std::int64_t sinks() const { return shifts() ? kSinks : 0; }
    std::int64_t seen() const { return std::ssize(text) - dropped; }
    // Whether each token moves all of the window.
    bool slides() const { return dropped > 0 && !shifts(); }
  };
  // A sequence and the logits (rows, V) of its next token and of those behind the proposed ones.
  struct Ready {
    Sequence* sequence;
    std::span<const float> logits;
  };

  const Sequence& find(Id id) const;
  std::int64_t positions_for(std::int64_t prompt_tokens, const GenerateOptions& options) const;
  std::int64_t position_limit() const;
  void make_room(Sequence& s) const;
  void propose(Sequence& s) const;
  std::int64_t piece_of(const Sequence& s) const;
  Tensor read_alone(Sequence& s) const;
  std::vector<Tensor> read_apart(std::span<Sequence* const> sequences) const;
  void read_apart(std::span<Sequence* const> sequences, double& seconds,
                  std::vector<Tensor>& logits, std::vector<Sequence*>& ready) const;
  Tensor read_newest(std::span<Sequence* const> sequences) const;
  std::vector<Tensor> read(std::vector<Sequence*>& ready);
  static void choose(Sequence& s, std::span<const float> logits);
  void choose(const Ready& ready) const;

  const Decoder& model_;
  GenerationLimits limits_;
  std::map<Id, Sequence> sequences_;
  Id next_id_ = 1;
  std::int64_t positions_ = 0;
  GenerationCost cost_;
};

}  // namespace tapegrad::nn
