// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/options.h"

namespace hetpipe {

OptionTable doctor_option_table(DoctorOptions& options) {
  return {
      "doctor",
      "Looks for what stands between this allocation and a run, before it starts, and says for "
      "each "
      "finding what to do. Start it as the run will be started, with as many ranks under the same "
      "launcher; nothing is left behind. Exit code: 0 nothing stands in the way, 2 a mistake, 3 "
      "the "
      "machine.",
      {{"The run, as far as it is known",
        {
            text_option("plan", "FILE", options.plan,
                        "Plan: ranks are compared with it, by number, host and device."),
            text_option("cluster", "FILE|slurm|ranks", options.planning.cluster,
                        "Cluster file of the plan; without a plan its hosts and devices are looked "
                        "for. Or slurm, ranks, as of hetpipe train: whether ranks and devices of "
                        "the allocation meet."),
            text_option("pool", "FILE", options.pool,
                        "With slurm or ranks: cluster file with the devices of all nodes."),
            text_option("profile", "FILE", options.planning.profile,
                        "Profile of the model: what of it nobody measured, and how large "
                        "checkpoints will be."),
            profile_device_option(options.planning),
            profile_batch_option(options.planning),
            text_option("output", "DIR", options.output,
                        "Run directory: whether it can be written and locked, is fast enough, and "
                        "is one for all ranks."),
            integer_option("keep", "N", options.keep, {0},
                           "Checkpoints that the run keeps, for which there has to be room."),
        }},
       {"This machine",
        {
            choice_option("device", options.device, {"auto", "cpu", "cuda"},
                          "What the run computes on, as of hetpipe train."),
            integer_option("threads", "N", options.threads, {1, 1024}, "Threads of each rank."),
            real_option("timeout", "S", options.timeout, {0.1, 600},
                        "Seconds after which a message between two ranks is taken for lost."),
        }},
       {"What comes of it",
        {
            flag_option("json", options.json,
                        "Prints what was found as one JSON document instead of text."),
        }}}};
}

}  // namespace hetpipe
