import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.jar.JarFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.pitest.bytecode.analysis.ClassTree;
import org.pitest.classinfo.ClassByteArraySource;
import org.pitest.classinfo.ClassName;
import org.pitest.mutationtest.build.CompoundMutationInterceptor;
import org.pitest.mutationtest.build.InterceptorParameters;
import org.pitest.mutationtest.build.MutationInterceptor;
import org.pitest.mutationtest.build.MutationInterceptorFactory;
import org.pitest.mutationtest.config.ReportOptions;
import org.pitest.mutationtest.engine.Location;
import org.pitest.mutationtest.engine.MutationDetails;
import org.pitest.mutationtest.engine.MutationIdentifier;
import org.pitest.mutationtest.engine.gregor.GregorMutater;
import org.pitest.mutationtest.engine.gregor.config.Mutator;

/**
 * PIT's default mutants of classes, as PIT's own run would choose them: its default mutators, behind
 * the filters that it has switched on by default (calls of loggers, for example).
 *
 * <p>{@code java Mutants LIB PREFIX...} prints one line per mutant of the classes in LIB's jars whose
 * name begins with one of the prefixes: class, method, descriptor, index, mutator, line, block and
 * description, separated by tabs.
 */
public final class Mutants {

  private Mutants() {}

  /** The bytes of a class as a loader finds them. */
  static ClassByteArraySource source(ClassLoader loader) {
    return name -> {
      String path = name.replace('.', '/') + ".class";
      try (InputStream stream = loader.getResourceAsStream(path)) {
        return stream == null ? Optional.empty() : Optional.of(stream.readAllBytes());
      } catch (IOException problem) {
        throw new UncheckedIOException(problem);
      }
    };
  }

  static GregorMutater engine(ClassByteArraySource source) {
    return new GregorMutater(source, method -> true, Mutator.newDefaults());
  }

  /** A mutant's bytes; its five fields are those of a printed line. */
  static byte[] bytes(ClassByteArraySource source, String[] fields) {
    Location location = Location.location(ClassName.fromString(fields[0]), fields[1], fields[2]);
    List<Integer> indexes = List.of(Integer.parseInt(fields[3]));
    return engine(source).getMutation(new MutationIdentifier(location, indexes, fields[4])).getBytes();
  }

  private static MutationInterceptor filters(ClassByteArraySource source) {
    ReportOptions options = new ReportOptions();
    InterceptorParameters parameters = new InterceptorParameters(null, options, null, source, null);
    List<MutationInterceptor> filters = new ArrayList<>();
    for (MutationInterceptorFactory factory : ServiceLoader.load(MutationInterceptorFactory.class)) {
      if (factory.provides().isOnByDefault()) {
        filters.add(factory.createInterceptor(parameters));
      }
    }
    return new CompoundMutationInterceptor(filters);
  }

  public static void main(String[] arguments) throws IOException {
    ClassByteArraySource source = source(Mutants.class.getClassLoader());
    GregorMutater engine = engine(source);
    MutationInterceptor filters = filters(source);
    for (String name : classes(Path.of(arguments[0]), List.of(arguments).subList(1, arguments.length))) {
      filters.begin(ClassTree.fromBytes(source.getBytes(name).orElseThrow()));
      Collection<MutationDetails> kept =
          filters.intercept(engine.findMutations(ClassName.fromString(name)), engine);
      filters.end();
      for (MutationDetails mutant : kept) {
        Location at = mutant.getId().getLocation();
        System.out.println(
            String.join(
                "\t",
                name,
                at.getMethodName(),
                at.getMethodDesc(),
                String.valueOf(mutant.getFirstIndex()),
                mutant.getMutator(),
                String.valueOf(mutant.getLineNumber()),
                mutant.getDescription().replaceAll("\\s+", " ")));
      }
    }
  }

  private static List<String> classes(Path lib, List<String> prefixes) throws IOException {
    List<String> names = new ArrayList<>();
    try (Stream<Path> files = Files.list(lib)) {
      for (Path path : files.filter(file -> file.toString().endsWith(".jar")).sorted().toList()) {
        try (JarFile jar = new JarFile(path.toFile())) {
          jar.stream()
              .map(entry -> entry.getName())
              .filter(entry -> entry.endsWith(".class"))
              .map(entry -> entry.substring(0, entry.length() - 6).replace('/', '.'))
              .filter(name -> prefixes.stream().anyMatch(name::startsWith))
              .forEach(names::add);
        }
      }
    }
    return names;
  }
}
