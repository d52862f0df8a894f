#pragma once

#include "tapegrad/run/corpus/prepare/prepare_options.h"

namespace tapegrad::run {

// Tokenises a corpus into a folder that data::open_data_folder opens, in little memory whatever the
// corpus, on all threads. Documents are separated as train-gpt separates them. Returns the exit
// code of a program that does this: kInterruptedExitCode after a signal. Called again with the same
// options, it goes on behind the last file that was complete, and the files become the same as
// without a stop.
//
// Errors: as of data::CorpusStream and DocumentStream; a folder that has other things in it; a
// corpus or options that are not those that the folder was begun with.
int prepare(const PrepareOptions& options);

// The same for conversations, which are divided as chat_data_of() divides them. A conversation that
// is no conversation to learn from is named on stderr and left out. After a stop, the same options
// begin anew. Errors as of read_chat() and chat_data_of(), too.
int prepare_chat(const PrepareOptions& options);

}  // namespace tapegrad::run
