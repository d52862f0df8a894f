#pragma once

#include "tapegrad/apps/serve/models/model_set.h"

namespace tapegrad::serve {

// One model, with its adapters, that is there from the beginning to the end.
class SingleModel : public ModelSet {
 public:
  // Both must outlive it.
  SingleModel(const ServedModel& served, Engine& engine)
      : model_(std::make_shared<const ReadyModel>(ReadyModel{served, engine})) {}

  // Whoever reads the request compares the name.
  Found find(const std::optional<std::string>&) override { return {model_}; }
  void load(const std::string&, Then then, Wanted) override { then(model_, {}); }
  Json list() override;
  Json describe(std::string_view name) override;
  bool reads_files() const override { return false; }
  EngineState state() const override { return model_->engine.state(); }
  bool idle() const override { return model_->engine.idle(); }

 private:
  const HeldModel model_;
};

}  // namespace tapegrad::serve
