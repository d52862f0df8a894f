#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/params.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/models/families/internal/known_pre_tokenizer.h"

namespace tapegrad::run {

// A family of models is a row of data: what files of Hugging Face's and of llama.cpp call the
// options of its config and its tensors, both ways. Each has a file here that makes its row; CMake
// makes the table of them. Formats read and write bytes, and ask the row for everything else.

// An option of nn::DecoderConfig, by its name there, under the name that a format has for it.
struct FamilyKey {
  enum class Direction {
    both,
    in,       // it is read only
    out,      // it is written only; what a file says does not matter
    same,     // written; in a file, it must be what another key has set
    ignored,  // a file may have it
  };
  std::string_view key;
  std::string_view option = {};  // empty: the key must be absent or `only`
  Value only = {};
  Direction direction = Direction::both;
  bool needed = false;  // a file without it is refused; otherwise Family::model has the value
  // Their value for a file without the key, where Family::model has another one. Null is refused
  // then, unless it stands for the value of Family::model.
  Value absent = {};
  bool absent_is_not_null = false;
  bool or_null = false;  // an option that is not set is written as null
  Value null = {};       // the value of the option for which a file has null [null is as absent]
  // Their words for the values of an enum, then ours. Of several, the first one is written.
  std::vector<std::pair<std::string_view, std::string_view>> words = {};
  // Makes our value of theirs, and theirs of ours, where a file has it in another form. Error for
  // one that the other form does not have.
  Value (*ours)(const Value& theirs) = nullptr;
  Value (*theirs)(const Value& ours) = nullptr;
};
// In place of an option: all options of rotary positions, or of windows, which have no key each;
// rope_pattern, as a list of 1 and 0; moe_pattern, as a list of dense blocks, or as the number of
// those that stand before all others; mixer_pattern, as a list of kinds of blocks; n_inner, as
// numbers that LFM2's class makes it from; n_inner, moe_inner and moe_shared_inner, where a block's
// dense feed-forward has one key whether experts stand beside it or not; mamba_head_size, as a
// number, a share of the width or the channels of all heads, and with it mamba_norm_groups of
// Falcon-H1, as truth values; delta_value_size, as the channels of all heads; gate_scale, mlp_scale
// and mamba_part_scales, as lists of numbers; mixer_pattern and ff_pattern, as a row of kinds of
// layers that are a mixer or a feed-forward alone; or those of LongRoPE, whose factors GGUF has as
// tensors.
inline constexpr std::string_view kRotation = "rotation", kWindows = "windows",
                                  kRotaryBlocks = "rotary blocks", kDenseBlocks = "dense blocks",
                                  kLeadingDense = "leading dense blocks", kMixers = "mixers",
                                  kAdjustedInner = "adjusted n_inner", kLongRope = "longrope",
                                  kSharedInner = "shared n_inner", kMambaWidth = "mamba width",
                                  kDeltaWidth = "delta width", kScaleLists = "lists of scales",
                                  kSingleParts = "single parts";
// True for an option that files have in a form of its own, for which a key of it stands.
bool is_own_form(std::string_view option);

// A tensor that Hugging Face's files call otherwise than we do. '#' is the number of a block. '@',
// in their name alone, is the number of an expert: files have a tensor for each, of which ours is
// the stack.
struct HfTensorName {
  std::string_view ours, theirs;
  // Models, and blocks of them, whose tensor of theirs this is, where ours depends on it. Null:
  // all.
  bool (*of)(const nn::DecoderConfig& config, int block) = nullptr;
};

// A tensor of ours that is rows of one of Hugging Face's, of which others have the rest: row i of
// ours is row place(config, i) of theirs.
struct HfRows {
  std::string_view ours, theirs;
  std::int64_t (*count)(const nn::DecoderConfig& config);  // rows of ours
  std::int64_t (*place)(const nn::DecoderConfig& config, std::int64_t row);
};

// A family in transformers: config.json, and safetensors with our names behind a prefix.
struct HfFamily {
  // The way in which files name a window: `sliding_window`, 4096 where it is absent, unless it is
  // null; the same for some blocks, if `use_sliding_window` is true; or for those that
  // `layer_types` or `sliding_window_pattern` name, where the family's own are [Family::model].
  enum class Window { none, unless_null, if_asked, by_layer };
  // The scalings of rotary positions that transformers computes with the family's class.
  enum class Scalings { none, longrope, all };

  std::string_view model_class, base_class;       // "Qwen2ForCausalLM", "Qwen2Model"
  std::vector<FamilyKey> keys;                    // in the order in which they are written
  std::string_view prefix, embedding;             // "model.", "embed_tokens.weight"
  std::vector<std::string_view> transposed = {};  // ends of names of matrices that are (in, out)
  std::vector<std::string_view> left_out = {};    // ends of names of tensors without a meaning
  std::vector<std::string_view> parts_left_out = {};  // beginnings of such names, with the prefix
  std::vector<std::string_view> exact = {};  // of those that are f32 whatever the others are
  std::vector<HfTensorName> names = {};      // without the prefix; others have our names
  std::vector<HfRows> rows = {};             // those of one of their tensors side by side
  Window window = Window::none;
  // The share of a head's channels that turn, where files have no `partial_rotary_factor`. Nothing:
  // all turn, and files with another one are refused.
  std::optional<double> turned_share = {};
  Scalings scalings = Scalings::all;
  // The original positions where the file has none at its top, whatever its rope_parameters say.
  std::optional<std::int64_t> original_positions = {};
  // Sets the rotary positions that transformers takes for a file without rope_parameters. Null:
  // they are not scaled.
  void (*own_rotation)(nn::DecoderConfig&) = nullptr;
  bool scales_queries = false;  // rope_parameters have query_scale_beta, as llama_4_scaling_beta
  // The quantiser whose weights are read as they are stored: quant_method of quantization_config.
  std::string_view quantised_by = {};
  // Of a family whose files have experts in another form than a tensor of ours or of each expert:
  // files whose tensors are those that `names` speak of, and a model's tensors as files have them,
  // without the prefix.
  using Files = std::vector<std::shared_ptr<const TensorSource>>;
  Files (*apart)(const Files& files) = nullptr;
  std::vector<TensorToMake> (*joined)(std::vector<TensorToMake> tensors) = nullptr;
  // Sets options, after all keys, which files have in a form that depends on others.
  void (*settle)(nn::DecoderConfig&) = nullptr;
  // The prefix of transformers' modules, which PEFT's files have, where files of weights have
  // another one. Empty: it is `prefix`.
  std::string_view module_prefix = {};
  // The model_type, the class and the prefix of models that have one of the family as a part, such
  // as those that also see pictures: its keys are in their text_config. Empty: there are none.
  std::string_view wrapper = {}, wrapper_class = {}, wrapper_prefix = {};
  // False: transformers has no class for it, and that of another family computes the same.
  bool is_written = true;
  // The pre-tokenizer that transformers takes whatever the files say, and the sentence that refuses
  // another one. Empty: the files' own.
  std::string_view own_pre_tokenizer = {}, own_pre_tokenizer_only = {};

  FamilyKey& key(std::string_view name);  // of `keys`, which have it
  // For a key of a part that the family's class never has: a file may say false.
  void never(std::string_view name, FamilyKey::Direction direction = FamilyKey::Direction::in);
  // Adds the keys of experts, of which one says how many there are.
  void take_experts(std::string_view count);
  // Adds the keys of a Mamba-2.
  void take_mamba();
  // Sets what the family's class in transformers takes for absent keys.
  void set_absent(const std::vector<std::pair<std::string_view, std::int64_t>>& values);
};

// The name of a tensor in a GGUF file; '#' is the number of a block, if the block has the tensor.
// llama.cpp turns neighbouring channels of a head where this project, as Hugging Face, turns
// channel i with i + D/2. Some families have the rows of Q and K exchanged instead: row 2i + j of a
// head in the file is row j·D/2 + i here. Several names of one tensor of ours are equal parts of it
// along the dimension before its last, in their order.
struct GgufTensorName {
  enum class Exchanged { no, queries, keys };
  // The file's shape where we have another one.
  enum class Form {
    same,
    squeezed,  // (C, K) for (C, 1, K)
    column,    // (N, 1) for (N)
    vector,    // (N), or (1, N), for (N); or (groups, N / groups)
    row,       // (1, N), or (N), for (1, N)
  };
  std::string ours, theirs;
  Exchanged exchanged = Exchanged::no;
  std::string_view with = {};  // only models with this option have the tensor
  // A file that has the tensor, in the first block that may have such a one, has that option.
  bool tells = false;
  std::string_view without = {};  // models with this option do not
  float plus = 0;                 // the file's addend of each element
  Form form = Form::same;
  bool is_rate = false;  // the file has -exp(x) of each element x
  // Of a vector: the groups of its numbers. Null: it is one.
  std::int64_t (*group_count)(const nn::DecoderConfig& config) = nullptr;
  // Row i of ours, of count(config), is row place(config, i) of theirs, of which other names may
  // have the rest; or the same of columns, in heads of equal size. Null: they have one order.
  std::int64_t (*count)(const nn::DecoderConfig& config) = nullptr;
  std::int64_t (*place)(const nn::DecoderConfig& config, std::int64_t row) = nullptr;
  std::int64_t (*head_of_columns)(const nn::DecoderConfig& config) = nullptr;  // of columns: a size
};

struct GgufFamily {
  std::string_view architecture = {};        // empty: GGUF has none of its own for the family
  std::vector<FamilyKey> keys = {};          // without "llama." before them
  std::vector<GgufTensorName> tensors = {};  // without the head
  bool has_experts = false;                  // which tells families of one architecture apart
  // Why an option cannot be written, for messages.
  std::vector<std::pair<std::string_view, std::string_view>> reasons = {};
  // Llama 3's scaling of rotary positions may stand in the file, as a tensor.
  bool may_scale_rotation = false;
  // llama.cpp takes files with a head and, for a tied one, without; otherwise as Family::model.
  bool takes_either_head = true;
  // YaRN's attn_factor counts also in blocks with the window and a base of their own.
  bool scales_windows = true;
  bool takes_yarn_keys = false;  // llama.cpp reads YaRN's betas and yarn_log_multiplier
  // For an architecture whose files have numbers of the config in the weights: multiplies tensors
  // of ours by them, and leaves a config without them. Null: there are none.
  void (*fold)(nn::DecoderConfig& config, std::vector<TensorToMake>& tensors) = nullptr;
  // Sets options that llama.cpp decides by the sizes of the model.
  void (*follow)(nn::DecoderConfig&) = nullptr;
  // Sizes that llama.cpp cannot have together: "mamba_groups 2: llama.cpp norms …". Empty: it can.
  std::string (*obstacle)(const nn::DecoderConfig&) = nullptr;

  // For architectures with which llama.cpp reads no biases but those of Q, K and V.
  void leave_out_biases();
  // Experts in each block, in place of the dense feed-forward layers of keys and tensors.
  void take_experts();
  // Also takes models whose gate and what it gates are one tensor here, which files have apart.
  void take_joined_gate();
};

struct Family {
  std::string_view name;    // model_type of Hugging Face's
  nn::DecoderConfig model;  // with the values of keys that are absent
  // Sets options that files do not say, since others decide them.
  void (*follow)(nn::DecoderConfig&) = nullptr;
  HfFamily hf;
  GgufFamily gguf;
  // The width of the feed-forward layer is left to the config where it is what the config makes it.
  bool inner_by_default = false;
  // The letter of mixer_pattern for what stands in place of attention, if the family has mixers.
  char mixer = 'C';
  // Options whose tensors files have in one form only, which the others are brought into.
  std::vector<std::string_view> same_tensors = {};
  // The tensors of a model by our names, as files of the family have them. They live as long as
  // the parameters.
  std::vector<TensorToMake> (*tensors)(const nn::Params& params, const nn::DecoderConfig& config);
  std::vector<KnownPreTokenizer> pre_tokenizers = {};  // that came with the family
};

// True if a name ends in one of these.
bool ends_in(std::string_view name, const std::vector<std::string_view>& ends);

// False if a tensor of blocks, by our name, is of attention where the block has another mixer, or
// of a norm that a Mamba-2 does not have, or of experts where its feed-forward is dense, or the
// other way round, or of a feed-forward beside experts that the model does not have, or of a part
// that the block lacks, or of that part's norm.
bool has_tensor(const nn::DecoderConfig& config, int block, std::string_view ours);
// True if each block is a mixer alone, attention or a Mamba-2, or a dense feed-forward alone.
bool has_single_parts(const nn::DecoderConfig& config);

// The number of dense blocks before those with experts. Nothing if a dense one follows these.
std::optional<int> leading_dense_blocks(const nn::DecoderConfig& config);
// The moe_pattern of so many blocks, of which the first `dense`, 0 or more, have no experts.
std::string leading_dense_pattern(std::int64_t dense, int blocks);

// The tensors of experts as most families call them.
std::vector<HfTensorName> expert_names();

// All families, in the order in which messages name them.
const std::vector<Family>& families();
// "gpt2, llama and qwen2", of those that have the name.
std::string names_of_families(std::string_view (*name)(const Family&));
// The family whose classes compute what the model does, or come nearest to it.
const Family& family_of(const nn::DecoderConfig& config);
// The same for GGUF's architectures.
const Family& gguf_family_of(const nn::DecoderConfig& config);

// Pre-tokenizers of all families, and the one of a name, which there must be.
const std::vector<KnownPreTokenizer>& pre_tokenizers();
const KnownPreTokenizer& pre_tokenizer(std::string_view name);
// Their names or titles, for messages.
std::string names_of_pre_tokenizers(std::string_view KnownPreTokenizer::*name);

// One row of each file NAME_family.cpp here, NAME_family(): made by CMake, see cmake/rows.cmake.
std::vector<Family> family_rows();
// Rows that others begin as: Mistral's and Qwen's are Llama's but for a few lines.
Family gpt2_family();
Family llama_family();
Family qwen2_family();
Family qwen3_family();
Family qwen3_moe_family();
// For Qwen3-Next and Qwen 3.5, of a row that begins as one of Qwen3's: options and keys of gated
// delta nets, gates of attention, and norms of weights 1 + w.
void take_gated_delta_nets(Family& family);
// Their names, keys and limits in GGUF, likewise.
void take_gated_delta_gguf(GgufFamily& family);
Family granite_family();
// What llama.cpp cannot have with any of Granite's architectures: see GgufFamily::obstacle.
std::string granite_gguf_obstacle(const nn::DecoderConfig& config);
Family granitemoe_family();
Family gemma_family();
Family gemma3_family();
Family olmo2_family();
Family lfm2_family();

}  // namespace tapegrad::run
