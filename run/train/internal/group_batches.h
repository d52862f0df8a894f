#pragma once

#include <memory>

#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// The batches of a step, shared out among groups that meet through files: group g of G has the
// batches g, g + G, g + 2G …, as process g of G has, and passes over the others as if it had seen
// them. So groups with one text and one seed learn different batches.
std::shared_ptr<Objective> batches_of_group(std::shared_ptr<Objective> all,
                                            const optim::MeetingPlace& place);

}  // namespace tapegrad::run
