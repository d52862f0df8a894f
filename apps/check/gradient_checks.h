#pragma once

#include "tapegrad/apps/check/check_report.h"
#include "tapegrad/nn/decoder.h"

namespace tapegrad::checks {

// First and second derivatives of each case in the op table.
void check_ops(CheckReport& report);

// A GPT in f64 on random tokens: every recorded step, and the slope of the loss along each
// parameter. `title` is for the headings.
void check_gpt(const std::string& title, const nn::Decoder& gpt, const NamedTensors& parameters,
               CheckReport& report);

}  // namespace tapegrad::checks
