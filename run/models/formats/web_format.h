#pragma once

#include "tapegrad/run/models/formats/export.h"

namespace tapegrad::run {

// A page that runs the model in a browser. scripts/web.sh makes the page; an export puts a model
// into it. See docs/web.md.

// The metadata of its weights' safetensors: {"name", "model": the options of nn::DecoderConfig,
// "tokenizer": as data::Tokenizer::save() writes it, "ends": tokens that end a text, "prompt": the
// tokens in place of an empty one}.
inline constexpr std::string_view kWebDescription = "tapegrad-web";
// The page without a model lies at this path from the folder above the program's.
inline constexpr std::string_view kWebPage = "share/tapegrad/web.html";
// Bytes of the weights in a file: browsers hold no longer text, and WebAssembly no more memory.
inline constexpr std::int64_t kMostInPage = std::int64_t{256} << 20;
inline constexpr std::int64_t kMostBesidePage = std::int64_t{1} << 30;

// Types of floats that a page reads. It computes in f32.
bool is_web_type(const StoredType& type);

// Writes a folder for a web server: index.html and model.safetensors. Errors, before anything is
// written: the page was not made; the page has no such tokenizer; the weights are too large.
std::vector<std::string_view> web_files();
Exported export_web(const TextModel& model, const std::filesystem::path& folder,
                    const StoredType& type);
// Writes a single file, which needs no server. Errors as for a folder.
Exported export_web_file(const TextModel& model, const std::filesystem::path& file,
                         const StoredType& type);

}  // namespace tapegrad::run
