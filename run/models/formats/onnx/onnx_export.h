#pragma once

#include "tapegrad/run/models/formats/export.h"

namespace tapegrad::run {

// Writes a folder that transformers.js opens: a graph of ONNX in onnx/, and the texts of
// Hugging Face's layout beside it. Errors, before anything is written: what the graph cannot
// express, by its option; a matrix that does not fit the type; settings that cannot be written.
Exported export_onnx(const TextModel& model, const std::filesystem::path& folder,
                     const StoredType& type);

// The same of an encoder–decoder: a graph for each half, named and called as Optimum's.
Exported export_onnx_translator(const Translator& model, const std::filesystem::path& folder,
                                const StoredType& type);

std::vector<std::string_view> onnx_files();
// True if there is a graph with matrices of it.
bool is_onnx_type(const StoredType& type);

}  // namespace tapegrad::run
