#pragma once

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/foreign_model.h"

namespace tapegrad::run {

// llm.c's files (github.com/karpathy/llm.c, train_gpt2.py, write_model and write_tokenizer):
// gpt2_124M.bin, a GPT-2 of any size, of version 3 (f32) or 5 (bf16), and gpt2_tokenizer.bin, the
// bytes of its tokens.

// True if it is a model file of theirs, or a folder with a gpt2_124M.bin.
bool is_llmc_file(const std::filesystem::path& path);

// The tokenizer is made of the file *tokenizer.bin beside it, which is gpt2_tokenizer.bin or the
// only one; without such a file a vocabulary of 50,257 is GPT-2's. Errors: a file that is broken or
// not as long as its header says; a vocabulary whose tokenizer is unknown.
ForeignModel open_llmc(const std::filesystem::path& path);

// Writes both files to a folder: f32 or bf16. Errors, before anything is written: what llm.c's
// GPT-2 cannot express, by its option; a token that its tokenizer cannot have.
Exported export_llmc(const TextModel& model, const std::filesystem::path& folder,
                     const StoredType& type);

std::vector<std::string_view> llmc_files();
// True if a version of the model file has it.
bool is_llmc_type(const StoredType& type);

}  // namespace tapegrad::run
