#pragma once

#include <filesystem>
#include <string>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/run/corpus/chat/chat_data.h"

namespace tapegrad::run {

// A folder of conversations that are tokens already, made by tapegrad prepare --chat. It is opened;
// its tokens are not read.
struct ChatFolder {
  std::string path;  // for people
  data::DataFolder data;
  data::ChatTemplate chat_template;
};

// Errors: as of data::open_data_folder(); another chat template than data.json says.
Text read_chat_folder(const std::filesystem::path& folder);

// The parts of a folder, with what a block has room for, as if they had been made of the files now:
// `data` gets all that chat_data_of() counts. Errors: a tokenizer or a template that is not the
// folder's; files that are not what data.json says.
void read_parts(const ChatFolder& folder, const data::Tokenizer& tokenizer,
                const ChatEncoding& encoding, ChatData& data);

}  // namespace tapegrad::run
