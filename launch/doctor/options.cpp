// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/options.h"

namespace hetpipe {

OptionTable doctor_option_table(DoctorOptions& options) {
  return {
      "doctor",
      "Checks an allocation before a run, and says for each finding what to do. Start it the way "
      "the run will be started, with the same number of ranks under the same launcher; it leaves "
      "no "
      "files behind. Exit code: 0 no problem, 2 mistakes in options, files or the launch, 3 a "
      "problem of the system.",
      {{"The run, as far as it is known",
        {
            text_option("plan", "FILE", options.plan,
                        "Plan: ranks are compared with it by number, host and device."),
            text_option(
                "cluster", "FILE|slurm|ranks", options.planning.cluster,
                "Cluster file of the plan; without a plan, its hosts and devices are looked "
                "for. Or slurm or ranks, as for hetpipe train: checks whether ranks and "
                "devices of the allocation match."),
            text_option("pool", "FILE", options.pool,
                        "With slurm or ranks: cluster file with the devices of all nodes."),
            text_option(
                "profile", "FILE", options.planning.profile,
                "Profile of the model: reports which times are estimated, not measured, and "
                "how large checkpoints will be."),
            profile_device_option(options.planning),
            profile_batch_option(options.planning),
            text_option("data", "DATA", options.data.data,
                        "Data set: every rank that will read samples reads some, all at once; "
                        "they are compared with the plan's samples/s."),
            real_option("test-share", "F", options.data.test_share, {0, 1, true},
                        "As for hetpipe train."),
            text_option("model", "DIR", options.data.model,
                        "Folder of the exported model that the plan is of, if its data have named "
                        "parts."),
            text_option(
                "output", "DIR", options.output,
                "Run directory: checks whether it can be written and locked, is fast enough, "
                "and is the same one for all ranks."),
            integer_option(
                "keep", "N", options.keep, {0},
                "Checkpoints that the run keeps: checks whether there is room for them."),
        }},
       sample_options(options.data.samples, MixedSamples::yes),
       {"This machine",
        {
            choice_option("device", options.device, {"auto", "cpu", "cuda"},
                          "Device to compute on, as for hetpipe train."),
            integer_option("threads", "N", options.threads, {1, 1024}, "Threads per rank."),
            real_option("timeout", "S", options.timeout, {0.1, 600},
                        "Seconds after which a message between two ranks counts as lost."),
        }},
       {"Output",
        {
            flag_option("json", options.json,
                        "Prints the findings as one JSON document instead of text."),
        }}}};
}

}  // namespace hetpipe
