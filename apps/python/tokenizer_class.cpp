// Tokenizers: those of opened models, and others.

#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"

namespace tapegrad::python {

using data::Tokenizer;

py::object text_of_bytes(const std::string& bytes) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

void bind_tokenizer(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> unlocked;
  py::class_<Tokenizer>(m, "Tokenizer",
                        "Turns text into tokens and back; cheap to copy. Model.tokenizer is that "
                        "of an opened model.")
      .def_static("gpt2", &Tokenizer::gpt2, "Exactly GPT-2's, of 50,257 tokens.")
      .def_static(
          "of_characters", [](const std::string& text) { return Tokenizer::of_characters(text); },
          py::arg("text"), "A token for each character of the text.")
      .def_static(
          "train_bpe",
          [](const std::string& text, std::int64_t vocab_size) {
            return Tokenizer::train_bpe(text, vocab_size);
          },
          py::arg("text"), py::arg("vocab_size"), unlocked,
          "Learns a vocabulary of 256 bytes, vocab_size - 257 merges and <|endoftext|>. Error if "
          "the text is too short to learn so many.")
      .def_static("open", &Tokenizer::open, py::arg("path"), unlocked,
                  "Reads a tokenizer.json, of Hugging Face's or of save(), or a folder with one.")
      .def("save", &Tokenizer::save, py::arg("path"), "Writes a file that open() reads.")
      .def(
          "encode",
          [](const Tokenizer& tokenizer, const std::string& text, bool allow_special) {
            return tokenizer.encode(text, allow_special);
          },
          py::arg("text"), py::arg("allow_special") = false, unlocked,
          "The tokens of a text. Special ones are read as such only if `allow_special`.")
      .def(
          "decode",
          [](const Tokenizer& tokenizer, const std::vector<data::Token>& ids) {
            return text_of_bytes(tokenizer.decode(ids));
          },
          py::arg("ids"), "The text of tokens. Error if one is outside the vocabulary.")
      .def(
          "token_bytes",
          [](const Tokenizer& tokenizer, data::Token id) {
            return py::bytes(tokenizer.token_bytes(id));
          },
          py::arg("id"), "The bytes of a token, which may be a part of a character.")
      .def("vocab_size", &Tokenizer::vocab_size)
      .def_property_readonly(
          "kind", [](const Tokenizer& tokenizer) { return std::string(tokenizer.kind()); },
          "'char', 'gpt2', 'bpe' or 'hf'.")
      .def("__len__", &Tokenizer::vocab_size)
      .def("__repr__", [](const Tokenizer& tokenizer) {
        return fmt::format("tapegrad.Tokenizer(kind='{}', {} tokens)", tokenizer.kind(),
                           tokenizer.vocab_size());
      });
}

}  // namespace tapegrad::python
