import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;

/**
 * Turns one class of a running JVM at a time into a mutant of itself, and back. PIT changes only the
 * bodies of methods, so the JVM accepts its classes in place of loaded ones. A method that is being
 * executed keeps its old body until it is called again.
 *
 * <p>The agent's argument is a folder: {@code scope} there names the classes that count their lines,
 * if it exists, {@code mutant} the mutant to begin with, if it exists, and {@code port} is written:
 * the port of a loopback socket that takes one command a line and answers each with one line.
 *
 * <ul>
 *   <li>{@code mutate CLASS METHOD DESCRIPTOR INDEX MUTATOR}, separated by tabs, or {@code restore}:
 *       {@code ok}
 *   <li>{@code lines}: the lines executed since the last answer, as {@code class:1,2 class:3}
 *   <li>{@code busy}: the threads that used more than four fifths of the last 300 ms
 * </ul>
 */
public final class MutationAgent implements ClassFileTransformer {

  private static final int BUSY_WINDOW_MS = 300;

  private static Instrumentation instrumentation;
  private static MutationAgent agent;

  private final Set<String> scope;
  private String[] mutant;
  private String problem = "";

  private MutationAgent(Set<String> scope, String[] mutant) {
    this.scope = scope;
    this.mutant = mutant;
  }

  public static void premain(String folder, Instrumentation jvm) throws IOException {
    Path scope = Path.of(folder, "scope");
    Path first = Path.of(folder, "mutant");
    instrumentation = jvm;
    agent =
        new MutationAgent(
            Files.exists(scope) ? Set.copyOf(Files.readAllLines(scope)) : Set.of(),
            Files.exists(first) ? Files.readString(first).strip().split("\t") : null);
    jvm.addTransformer(agent, true);
    ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    Path written = Path.of(folder, "port.new");
    Files.writeString(written, String.valueOf(server.getLocalPort()));
    Files.move(written, Path.of(folder, "port"), StandardCopyOption.ATOMIC_MOVE);
    Thread thread = new Thread(() -> serve(server), "mutation-agent");
    thread.setDaemon(true);
    thread.start();
  }

  private static void serve(ServerSocket server) {
    while (true) {
      try (Socket socket = server.accept();
          PrintStream out = new PrintStream(socket.getOutputStream(), true, StandardCharsets.UTF_8);
          BufferedReader in =
              new BufferedReader(
                  new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))) {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
          out.println(answer(line));
        }
      } catch (IOException problem) {
        // The harness has gone; it may come back.
      }
    }
  }

  private static String answer(String line) {
    try {
      if (line.startsWith("mutate ")) {
        return mutate(line.substring(7).split("\t"));
      }
      return switch (line) {
        case "restore" -> restore();
        case "lines" -> Lines.taken();
        case "busy" -> busy();
        default -> "no such command";
      };
    } catch (Throwable problem) {
      return problem.toString().replaceAll("\\s+", " ");
    }
  }

  static String mutate(String[] mutant) throws Exception {
    agent.mutant = mutant;
    return agent.retransform(mutant[0]);
  }

  static String restore() throws Exception {
    String[] before = agent.mutant;
    agent.mutant = null;
    return before == null ? "ok" : agent.retransform(before[0]);
  }

  private String retransform(String name) throws Exception {
    problem = "";
    for (Class<?> loaded : instrumentation.getAllLoadedClasses()) {
      if (loaded.getName().equals(name)) {
        instrumentation.retransformClasses(loaded);
      }
    }
    return problem.isEmpty() ? "ok" : problem;
  }

  @Override
  public byte[] transform(
      ClassLoader loader, String path, Class<?> loaded, ProtectionDomain domain, byte[] bytes) {
    if (path == null || loader == null) {
      return null;
    }
    String name = path.replace('/', '.');
    String[] current = mutant;
    boolean counted = scope.contains(name);
    if (!counted && (current == null || !current[0].equals(name))) {
      return null;
    }
    try {
      if (current != null && current[0].equals(name)) {
        return Mutants.bytes(Mutants.source(loader), current);
      }
      return withLines(name, bytes);
    } catch (Throwable failure) {
      problem = failure.toString().replaceAll("\\s+", " ");
      System.err.println("mutation agent: " + name + ": " + problem);
      return null;
    }
  }

  private static byte[] withLines(String name, byte[] bytes) {
    ClassReader reader = new ClassReader(bytes);
    ClassNode node = new ClassNode();
    reader.accept(node, 0);
    for (MethodNode method : node.methods) {
      for (AbstractInsnNode instruction : method.instructions.toArray()) {
        if (instruction instanceof LineNumberNode line) {
          AbstractInsnNode next = line;
          while (next != null && next.getOpcode() < 0) {
            next = next.getNext(); // a probe before a frame would move the frame from its label
          }
          if (next != null) {
            InsnList probe = new InsnList();
            probe.add(new LdcInsnNode(Lines.number(name, line.line)));
            probe.add(
                new MethodInsnNode(Opcodes.INVOKESTATIC, "MutationAgent$Lines", "hit", "(I)V", false));
            if (next.getOpcode() == Opcodes.NEW) {
              method.instructions.insert(next, probe); // frames name a new object by its offset
            } else {
              method.instructions.insertBefore(next, probe);
            }
          }
        }
      }
    }
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    node.accept(writer);
    return writer.toByteArray();
  }

  private static String busy() throws InterruptedException {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    Map<Long, Long> before = new HashMap<>();
    for (long id : threads.getAllThreadIds()) {
      before.put(id, threads.getThreadCpuTime(id));
    }
    Thread.sleep(BUSY_WINDOW_MS);
    int busy = 0;
    for (long id : threads.getAllThreadIds()) {
      long used = threads.getThreadCpuTime(id) - before.getOrDefault(id, Long.MAX_VALUE);
      busy += used > BUSY_WINDOW_MS * 800_000L ? 1 : 0;
    }
    return String.valueOf(busy);
  }

  /** The lines that were executed. Public, because mutated classes of other loaders call it. */
  public static final class Lines {

    private static final int MOST = 1 << 18;
    private static final boolean[] HIT = new boolean[MOST];
    private static final List<String> NAMES = new ArrayList<>();
    private static final Map<String, Integer> NUMBERS = new HashMap<>();

    private Lines() {}

    public static void hit(int number) {
      HIT[number] = true;
    }

    static synchronized int number(String name, int line) {
      return NUMBERS.computeIfAbsent(
          name + ":" + line,
          key -> {
            NAMES.add(key);
            return NAMES.size() - 1;
          });
    }

    static synchronized String taken() {
      StringBuilder text = new StringBuilder();
      for (int number = 0; number < NAMES.size(); number++) {
        if (HIT[number]) {
          HIT[number] = false;
          text.append(text.length() == 0 ? "" : " ").append(NAMES.get(number));
        }
      }
      return text.toString();
    }
  }
}
