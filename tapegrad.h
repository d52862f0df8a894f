#pragma once

// All of tapegrad: the engine, layers and models, optimisers, data, and runs.

// clang-format off
#include "tapegrad/base/version.h"  // first: it asks for C++20
// clang-format on

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/random.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/data/loader.h"
#include "tapegrad/data/pairs.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/beam.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/nn/generation/token_stream.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/nn/transformer.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/optimizers/sgd.h"
#include "tapegrad/optim/schedule.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/run/train/train.h"
