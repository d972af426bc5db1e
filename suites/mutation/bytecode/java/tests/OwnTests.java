import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs JUnit tests of a broker inside the JVM that has the {@link MutationAgent}.
 *
 * <p>{@code java OwnTests control FILE CLASS...} runs every test of the classes and appends to FILE a
 * line for each: its unique id, its result, its milliseconds and the lines it ran. {@code java
 * OwnTests mutants FILE PLAN SECONDS} reads from PLAN a mutant and its tests a line and appends to
 * FILE the mutant and the test that failed on it and passed right after its class was restored, or
 * nothing after it. Fields are separated by tabs, and the mutant's own five by spaces.
 */
public final class OwnTests {

  private static final Launcher LAUNCHER = LauncherFactory.create();

  private OwnTests() {}

  public static void main(String[] arguments) throws Exception {
    Path file = Path.of(arguments[1]);
    if (arguments[0].equals("control")) {
      for (String name : List.of(arguments).subList(2, arguments.length)) {
        control(file, name);
      }
    } else {
      mutants(file, Path.of(arguments[2]), Integer.parseInt(arguments[3]));
    }
    System.exit(0); // brokers leave threads
  }

  private static void control(Path file, String name) throws IOException {
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request().selectors(DiscoverySelectors.selectClass(name)).build();
    LAUNCHER.execute(
        request,
        new TestExecutionListener() {
          private long began;

          @Override
          public void executionStarted(TestIdentifier test) {
            if (test.isTest()) {
              MutationAgent.Lines.taken();
              began = System.nanoTime();
            }
          }

          @Override
          public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (test.isTest()) {
              long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
              append(
                  file,
                  test.getUniqueId(),
                  result.getStatus().toString(),
                  String.valueOf(millis),
                  MutationAgent.Lines.taken());
            }
          }
        });
  }

  private static void mutants(Path file, Path plan, int seconds) throws Exception {
    List<String> lines = Files.readAllLines(plan);
    for (String test : lines.get(0).split("\t")) {
      if (test.startsWith("[")) {
        outcome(test); // the first test of a JVM loads its classes: it must not be late for that
        break;
      }
    }
    for (String line : lines) {
      String[] fields = line.split("\t");
      String status = "SURVIVED";
      String by = "";
      int run = 0;
      for (int number = 1; number < fields.length && status.equals("SURVIVED"); number++) {
        run++;
        by = fields[number];
        MutationAgent.mutate(fields[0].split(" "));
        status = outcome(by, seconds);
        MutationAgent.restore();
        if (status.equals("KILLED") && !outcome(by, seconds).equals("SURVIVED")) {
          status = "SURVIVED"; // it fails without the mutant too
        }
      }
      append(file, fields[0], status, status.equals("SURVIVED") ? "" : by, String.valueOf(run));
      if (status.equals("TIMED_OUT")) {
        System.exit(2); // the test still runs; the caller starts another JVM
      }
    }
  }

  private static String outcome(String test, int seconds) throws InterruptedException, ExecutionException {
    ExecutorService executor = Executors.newSingleThreadExecutor();
    Future<String> result = executor.submit(() -> outcome(test));
    try {
      return result.get(seconds, TimeUnit.SECONDS);
    } catch (TimeoutException late) {
      return "TIMED_OUT";
    } finally {
      executor.shutdownNow();
    }
  }

  private static String outcome(String test) {
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request().selectors(DiscoverySelectors.selectUniqueId(test)).build();
    List<TestExecutionResult.Status> statuses = new ArrayList<>();
    LAUNCHER.execute(
        request,
        new TestExecutionListener() {
          @Override
          public void executionFinished(TestIdentifier finished, TestExecutionResult result) {
            statuses.add(result.getStatus());
          }
        });
    return statuses.contains(TestExecutionResult.Status.FAILED) ? "KILLED" : "SURVIVED";
  }

  private static void append(Path file, String... fields) {
    try {
      Files.writeString(
          file,
          String.join("\t", fields) + "\n",
          StandardCharsets.UTF_8,
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    } catch (IOException problem) {
      throw new java.io.UncheckedIOException(problem);
    }
  }
}
