// The types of a source's tables of stages.
#pragma once

namespace rnnc {

// The product of a value with a weight per unit, for a gate that is called.
struct StageWeight {
  int stage;   // before which it is needed
  int weight;  // in R_diag
  int gate;
  int value;   // a forward multiplies it, a backward's product gives it
  int saved;   // the place of the forward's value among what is saved
};

enum class StatisticKind { kMean, kTotal, kLargest, kMoments, kSoftmax };

// Numbers of a head from values of its units.
struct StageStatistic {
  int stage;         // before which they are needed
  StatisticKind kind;
  int first, count;  // of its values in kStatisticValues
  int to;            // the first number
};

}  // namespace rnnc
