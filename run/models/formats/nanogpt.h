#pragma once

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/foreign_model.h"

namespace tapegrad::run {

// nanoGPT's checkpoints (ckpt.pt, or the folder that has it) and the vocabularies of characters
// beside them (meta.pkl). github.com/karpathy/nanoGPT, model.py and train.py.

inline constexpr std::string_view kNanogptCheckpoint = "ckpt.pt", kNanogptMeta = "meta.pkl";

// True if the file begins as those of torch.save do.
bool is_nanogpt_checkpoint(const std::filesystem::path& path);

// GELU is the one with erf, as nanoGPT has it since June 2023, or by tanh where model_args lack
// bias. The vocabulary comes from a meta.pkl: beside the file, or where nanoGPT looks for it, by
// the checkpoint's own config: in ../data/DATASET/ or data/DATASET/. Without one, a model of 50257
// or 50304 tokens has GPT-2's. Errors name what is missing, broken or not supported.
ForeignModel open_nanogpt(const std::filesystem::path& path);

// The vocabulary that a meta.pkl says: characters in ascending order.
data::Tokenizer read_nanogpt_meta(const std::filesystem::path& path);

// Writes ckpt.pt and, for a model of characters, meta.pkl into a folder: f32. nanoGPT's sample.py
// samples from them, and train.py resumes with an optimizer that has made no step. Errors, before
// anything is written: what nanoGPT cannot express, by its option; a tokenizer that is neither of
// characters nor GPT-2's.
Exported export_nanogpt(const TextModel& model, const std::filesystem::path& folder,
                        const StoredType& type);

std::vector<std::string_view> nanogpt_files();
bool is_nanogpt_type(const StoredType& type);

}  // namespace tapegrad::run
