// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/host_name.h"
#include "base/text.h"
#include "launch/allocation/slurm.h"
#include "launch/command/output_file.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/launcher/child.h"
#include "launch/recipes/recipe.h"
#include "launch/sbatch/environment.h"
#include "launch/sbatch/script.h"
#include "launch/train/options.h"

namespace hetpipe {
namespace {

struct SbatchOptions {
  std::string cluster = "slurm";
  std::string script = "hetpipe-job.sh";
  std::optional<std::string> name;
  std::optional<std::string> partition;
  std::optional<std::string> nodes;
  std::string time = "01:00:00";
  int notice = 120;
  std::optional<std::string> array;
  std::vector<std::string> more;
  bool heterogeneous = false;
  std::string launcher = "srun";
  int attempts = 10;
  std::vector<std::string> setup;
  std::optional<std::string> container;
  std::string runtime = "apptainer";
};

OptionTable table_of(SbatchOptions& options) {
  return {
      "sbatch",
      "Writes a batch script for Slurm that trains on whatever nodes its job is given: it plans "
      "for these nodes at every start, writes a checkpoint and stops before its time limit or when "
      "it is preempted, requeues itself, and later resumes. Arguments after -- go to hetpipe "
      "train: hetpipe sbatch --time 04:00:00 -- --model resnet-50 --data images.h5 --epochs 90",
      {{"What to request",
        {
            text_option("cluster", "FILE|slurm", options.cluster,
                        "Cluster file of the nodes that the job may get, with the device types and "
                        "links to plan for. Or slurm: all nodes that sinfo lists, measured in the "
                        "job."),
            text_option("partition", "NAME", options.partition, "Slurm partition."),
            unset_means("from one node with a GPU to all nodes",
                        text_option("nodes", "MIN-MAX", options.nodes,
                                    "Number of nodes with which the job may start.")),
            text_option("time", "LIMIT", options.time, "Time limit, in Slurm's format."),
            integer_option("notice", "S", options.notice, {1, 65535},
                           "Seconds before the time limit at which the training is asked to stop; "
                           "must be longer than a wave and a checkpoint take."),
            text_option(
                "array", "LIST", options.array,
                "Job array, such as 0-4: one training for each number, which is its --seed, "
                "in its own run directory."),
            flag_option(
                "heterogeneous", options.heterogeneous,
                "Requests nodes that differ as components of a heterogeneous job instead of "
                "as whole nodes: for sites where a job sees only the GPUs it requested. "
                "Restarts only when all components are available."),
            repeated_option("sbatch", "OPTION", options.more,
                            "Further option for sbatch, such as --sbatch=--account=lab. May be "
                            "repeated."),
        }},
       {"How to run",
        {
            choice_option("launcher", options.launcher, {"srun", "mpirun"},
                          "Program that starts the ranks."),
            integer_option("attempts", "N", options.attempts, {1, 16},
                           "Attempts in a row without a new checkpoint, after system failures, "
                           "before the job gives up."),
            repeated_option("setup", "FILE|LINE", options.setup,
                            "Prepares the environment of the job: a file, which the script reads "
                            "with '.' (source), or a line for the script, such as --setup 'module "
                            "load openmpi'. May be repeated; the order is kept."),
            text_option("container", "IMAGE", options.container,
                        "Runs the ranks in a container that has hetpipe in its PATH: a file, or "
                        "an address such as docker://HOST/NAME. The script itself, which asks "
                        "Slurm, uses this hetpipe."),
            choice_option("container-runtime", options.runtime,
                          {"apptainer", "singularity", "pyxis"},
                          "What starts the container. pyxis is a part of srun."),
            unset_means("the model's",
                        text_option("name", "NAME", options.name, "Name of the job.")),
            text_option("script", "FILE", options.script, "Where to write the script."),
        }}}};
}

// A job is started elsewhere, with another PATH.
std::string own_program(const std::string& called) {
  if (called.find('/') != std::string::npos) return std::filesystem::absolute(called).string();
  const std::string found = find_program(called);
  return found.empty() ? called : std::filesystem::absolute(found).string();
}

// A line break in a word would become a line of the script.
void check_words(const std::vector<std::string>& words, Problems& problems) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::none_of(word.begin(), word.end(),
                     [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; })) {
      continue;
    }
    const bool value = i > 0 && words[i - 1].starts_with("--") && !word.starts_with("--");
    problems.add(value                    ? words[i - 1]
                 : word.starts_with("--") ? word.substr(0, word.find('='))
                                          : "",
                 "an argument holds a line break or another control character (it goes into a "
                 "script). Leave it out.");
  }
}

void check_request(const SbatchOptions& options, Problems& problems) {
  if (options.name && (options.name->empty() || options.name->find('/') != std::string::npos)) {
    problems.add("--name", "'" + *options.name +
                               "' cannot be the name of a job (it names a folder and a log). Leave "
                               "out the '/'.");
  }
  const std::optional<std::int64_t> limit = seconds_of_slurm_time(options.time);
  if (!limit) {
    problems.add("--time", "'" + options.time +
                               "' is no time limit of Slurm. Write MINUTES, HOURS:MINUTES:SECONDS, "
                               "DAYS-HOURS or DAYS-HOURS:MINUTES:SECONDS.");
  } else if (options.notice >= *limit) {
    problems.add("--notice", format("%d s, and the time limit is %lld s (the job would be stopped "
                                    "as soon as it has started). Give a longer --time, or a "
                                    "shorter notice.",
                                    options.notice, static_cast<long long>(*limit)));
  }
  const std::string array = options.array.value_or("0");
  if (array.find_first_not_of("0123456789,-:%") != std::string::npos) {
    problems.add("--array", "'" + array + "' (not a list of numbers). Write 0-4, or 0,2,5.");
  }
}

// The words for hetpipe train, which has to be able to read them.
TrainOptions checked_training(const SbatchOptions& options, const std::vector<std::string>& words,
                              Problems& problems) {
  TrainOptions train;
  OptionTable table = train_option_table(train);
  for (const char* own : {"--cluster", "--plan", "--pool", "--resume", "--transport"}) {
    const bool said = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.substr(0, word.find('=')) == own;
    });
    if (said) {
      problems.add(own,
                   "cannot be given after -- (the script sets it, for the nodes that the "
                   "job is given). Leave it out.");
    }
  }
  if (!problems.empty()) return train;
  std::vector<std::string> whole = words;
  whole.insert(whole.end(), {"--cluster", "slurm", "--resume", "auto"});
  if (options.cluster != "slurm") whole.insert(whole.end(), {"--pool", options.cluster});
  table.read(whole, problems, [&] { return options_of_recipe(train.recipe, table); });
  if (train.metrics && options.array) {
    problems.add("--metrics",
                 "cannot be given after -- together with --array (all trainings would write to the "
                 "same file). Leave it out, and watch each run with hetpipe watch.");
  }
  if (!train.data) return train;
  TrainOptions started = train;
  if (!started.output) started.output = "runs";  // the script has one of its own
  check_train_options(started, problems);
  return train;
}

// sinfo's nodes of one partition; empty where there is no Slurm here, which a cluster file stands
// in for.
std::vector<AllocatedNode> nodes_of_slurm(const std::optional<std::string>& partition,
                                          bool file_given) try {
  if (find_program("sinfo").empty()) return {};
  return listed_nodes(ask_slurm({"sinfo", "--noheader", "--Node", "--format=%N|%P|%G|%f|%T"}),
                      partition.value_or(""));
} catch (const SystemError& error) {
  if (!file_given) throw;
  std::fprintf(stderr, "warning: %s\n", error.what());
  return {};
}

// Nodes of the file, as Slurm knows them where it does.
void take_from_file(const Cluster& cluster, const std::string& file,
                    const std::vector<AllocatedNode>& known, BatchJob& job) {
  std::vector<AllocatedNode> nodes;
  std::vector<std::string> unknown;
  for (const Node& node : cluster.nodes) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const AllocatedNode& of) {
      return of.name == short_name(node.name);
    });
    if (found != known.end()) {
      nodes.push_back(*found);
    } else if (known.empty()) {
      AllocatedNode of;
      of.name = node.name;
      of.gpus.resize(node.kinds.size());
      nodes.push_back(std::move(of));
    } else {
      unknown.push_back(node.name);
    }
  }
  if (!unknown.empty()) {
    throw UserError(file,
                    format("names %s (no such node in this partition of Slurm). Name nodes as "
                           "sinfo lists them, or give --partition.",
                           join(unknown, ", ").c_str()));
  }
  for (const AllocatedNode& of : known) {
    const bool named = std::any_of(nodes.begin(), nodes.end(),
                                   [&](const AllocatedNode& node) { return node.name == of.name; });
    if (!named) job.left_out.push_back(of.name);
  }
  job.classes = node_classes(nodes);
}

void decide_nodes(const SbatchOptions& options, BatchJob& job) {
  int all = 0;
  int without = 0;
  for (const NodeClass& of : job.classes) {
    all += static_cast<int>(of.nodes.size());
    if (of.gpus() == 0) without += static_cast<int>(of.nodes.size());
  }
  job.most_nodes = all;
  job.least_nodes = std::min(all, without == all ? 1 : without + 1);
  if (!options.nodes) return;
  const std::vector<std::string> parts = split(*options.nodes, '-');
  std::vector<int> numbers;
  for (const std::string& part : parts) {
    int number = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc() && stop == part.data() + part.size()) numbers.push_back(number);
  }
  if (numbers.size() != parts.size() || parts.size() > 2 || numbers.front() < 1 ||
      numbers.back() < numbers.front()) {
    throw UserError("--nodes",
                    "'" + *options.nodes + "' (neither a number nor a range). Give N, or MIN-MAX.");
  }
  if (numbers.back() > all) {
    throw UserError("--nodes",
                    format("%d (there are only %d). Request fewer.", numbers.back(), all));
  }
  job.least_nodes = numbers.front();
  job.most_nodes = numbers.back();
}

JobShape shape_of(const SbatchOptions& options, const BatchJob& job) {
  const bool managed = std::any_of(job.classes.begin(), job.classes.end(),
                                   [](const NodeClass& of) { return of.gpus() > 0; });
  if (!managed) return JobShape::whole_nodes;
  if (job.classes.size() == 1) return JobShape::alike;
  return options.heterogeneous ? JobShape::heterogeneous : JobShape::whole_nodes;
}

std::string in_words(const BatchJob& job) {
  std::vector<std::string> classes;
  for (const NodeClass& of : job.classes) {
    std::vector<std::string> gpus;
    for (const auto& [type, count] : of.gpus_of) {
      gpus.push_back(format("%d %s", count, type.empty() ? "GPU" : type.c_str()));
    }
    classes.push_back(
        format("%zu %s", of.nodes.size(),
               gpus.empty() ? "without GPUs" : ("with " + join(gpus, " and ")).c_str()));
  }
  return join(classes, ", ");
}

}  // namespace

int sbatch_command(const Invocation& how) {
  SbatchOptions options;
  OptionTable table = table_of(options);
  const SplitWords words = split_words(how.arguments);
  TrainOptions train;
  BatchJob job;
  const auto check = [&](Problems& problems) {
    check_words(how.arguments, problems);
    check_request(options, problems);
    check_output_file("--script", options.script, problems);
    check_container(options.container, options.runtime, options.launcher == "mpirun", problems);
    job.setup = setup_lines(options.setup, problems);
    train = checked_training(options, words.behind, problems);
  };
  if (!read_options(table, {how.program, words.own, how.reader}, check)) return 0;

  std::vector<std::string> all{how.program, "sbatch"};
  all.insert(all.end(), how.arguments.begin(), how.arguments.end());
  job.written_by = shell_words(all);
  const std::string model = train.model ? model_name(choice_of(train)) : "";
  job.name = options.name.value_or(model.empty() ? "hetpipe" : model);
  job.partition = options.partition.value_or("");
  job.time = options.time;
  job.notice_seconds = options.notice;
  job.array = options.array.value_or("");
  job.more = options.more;
  job.mpirun = options.launcher == "mpirun";
  job.threads = train.threads;
  job.attempts = options.attempts;
  job.program = own_program(how.program);
  job.folder = std::filesystem::current_path().string();
  job.output = train.output.value_or("");
  // The script says the run directory itself.
  for (std::size_t i = 0; i < words.behind.size(); ++i) {
    const std::string& word = words.behind[i];
    if (word == "--output") {
      ++i;
    } else if (!word.starts_with("--output=")) {
      job.train.push_back(word);
    }
  }
  const std::vector<AllocatedNode> known =
      nodes_of_slurm(options.partition, options.cluster != "slurm");
  if (options.cluster == "slurm") {
    if (known.empty()) {
      throw UserError("--cluster",
                      "slurm (sinfo is not installed here, or lists no node of this partition). "
                      "Give --cluster FILE, or run this where sbatch works.");
    }
    job.classes = node_classes(known);
  } else {
    job.pool = options.cluster;
    take_from_file(load_cluster(options.cluster), options.cluster, known, job);
  }
  if (options.container) {
    job.container = container_of(options.runtime);
    job.image = *options.container;
    job.mounted = folders_for_container(
        job.folder, {train.data.value_or(""), train.output.value_or(""),
                     train.planning.profile.value_or(""), job.pool, train.recipe.value_or("")});
  }
  decide_nodes(options, job);
  job.shape = shape_of(options, job);
  if (job.mpirun && job.shape == JobShape::heterogeneous) {
    throw UserError("--launcher",
                    "mpirun cannot start ranks in all components of a "
                    "heterogeneous job (it sees only the first). Use srun.");
  }
  if (job.shape == JobShape::heterogeneous) {
    if (const auto nodes = nodes_out_of_order(job.classes); !nodes.empty()) {
      std::fprintf(stderr,
                   "warning: types of nodes alternate in the order of names (at %s), and Slurm "
                   "22.05 cannot connect the ranks of such a heterogeneous job. Leave out "
                   "--heterogeneous, or name other nodes in --cluster FILE.\n",
                   join(nodes, ", ").c_str());
    }
  }
  write_file(options.script, script_of(job));
  ::chmod(options.script.c_str(), 0755);
  std::printf("%s written, for nodes: %s%s\nsubmit it with\n  sbatch %s\n", options.script.c_str(),
              in_words(job).c_str(), known.empty() ? " (Slurm was not asked)" : "",
              shell_words({options.script}).c_str());
  if (!known.empty() && !job.mpirun && !find_program("srun").empty() &&
      ask_slurm({"srun", "--mpi=list"}).find("pmix") == std::string::npos) {
    std::fprintf(stderr,
                 "warning: srun --mpi=list has no pmix, which the ranks of Open MPI need to "
                 "find each other. Ask the administrator for Slurm's PMIx plug-in, or use "
                 "--launcher mpirun.\n");
  }
  return 0;
}

}  // namespace hetpipe
