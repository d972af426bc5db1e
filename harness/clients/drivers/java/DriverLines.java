// The line protocol of drivers in Java: see docs/reference/client-drivers.md.
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class DriverLines {
    /** Acts on a command; what it throws is reported. */
    interface Action<T> {
        void run(T argument) throws Throwable;
    }

    /** The fields of a command. */
    static final class Asked {
        final Map<String, Object> fields;

        Asked(Map<String, Object> fields) {
            this.fields = fields;
        }

        String text(String name) {
            return (String) fields.get(name);
        }

        int number(String name) {
            return ((Number) fields.get(name)).intValue();
        }

        boolean flag(String name) {
            return Boolean.TRUE.equals(fields.get(name));
        }

        /** Two numbers, as heartbeats have. */
        int[] pair(String name) {
            List<?> values = (List<?>) fields.get(name);
            return new int[] {((Number) values.get(0)).intValue(), ((Number) values.get(1)).intValue()};
        }

        byte[] content() {
            String coded = text("base64");
            if (coded != null) return Base64.getDecoder().decode(coded);
            return text("body").getBytes(StandardCharsets.UTF_8);
        }

        /** Headers of a STOMP frame: those that were asked for, and {@code more}, without null. */
        Map<String, String> headers(String... more) {
            Map<String, String> all = new LinkedHashMap<>();
            for (int i = 0; i < more.length; i += 2) if (more[i + 1] != null) all.put(more[i], more[i + 1]);
            if (fields.get("headers") instanceof Map<?, ?> given) given.forEach((k, v) -> all.put((String) k, (String) v));
            return all;
        }
    }

    private static final PrintStream OUTPUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    private static int busyMs;
    private static int messages;

    private DriverLines() {}

    /** Report something; {@code fields} are names and values in turn. */
    static void report(String saw, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("saw", saw);
        line.put("at", System.nanoTime());
        for (int i = 0; i < fields.length; i += 2) line.put((String) fields[i], fields[i + 1]);
        String text = Json.write(line) + "\n";
        synchronized (OUTPUT) {
            OUTPUT.print(text);
            OUTPUT.flush();
        }
    }

    static void reportError(Throwable problem) {
        report("error", "headers", Map.of(), "body", String.valueOf(problem));
    }

    /** Report a message, which {@code keep} remembers, and work on it for as long as was asked. */
    static void reportMessage(Map<String, String> headers, byte[] body, Runnable keep) throws InterruptedException {
        int number;
        int work;
        synchronized (DriverLines.class) {
            keep.run();
            number = ++messages;
            work = busyMs;
            busyMs = 0;
        }
        Object[] content;
        try {
            content = new Object[] {"body", StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString()};
        } catch (CharacterCodingException binary) {
            content = new Object[] {"base64", Base64.getEncoder().encodeToString(body)};
        }
        report("message", "number", number, "headers", headers, content[0], content[1]);
        if (work > 0) {
            Thread.sleep(work);
            report("worked", "number", number);
        }
    }

    /** Let {@code action} wait for the server, and the next command not for it. */
    static void beside(Action<Void> action) {
        Thread thread = new Thread(() -> {
            try {
                action.run(null);
            } catch (Throwable problem) {
                reportError(problem);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** The release of a library, from the name of its jar. */
    private static String version(Class<?> library) {
        String jar = library.getProtectionDomain().getCodeSource().getLocation().getPath();
        Matcher found = Pattern.compile("-(\\d[^/]*)\\.jar$").matcher(jar);
        return found.find() ? found.group(1) : "unknown";
    }

    /** Obey the commands on standard input; those in {@code aside} run in a thread each. */
    static void serve(String client, Class<?> library, Map<String, Action<Asked>> commands, String... aside) throws Exception {
        System.setOut(System.err); // what a library prints is no report
        Set<String> waiting = Set.of(aside);
        report("ready", "client", client, "version", version(library));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            @SuppressWarnings("unchecked")
            Asked asked = new Asked((Map<String, Object>) new Json(line).value());
            if (waiting.contains(asked.text("do"))) beside(nothing -> obey(asked, commands));
            else obey(asked, commands);
        }
        Runtime.getRuntime().halt(0); // threads of the library may wait for ever
    }

    private static void obey(Asked asked, Map<String, Action<Asked>> commands) {
        String name = asked.text("do");
        try {
            if (name.equals("work")) {
                synchronized (DriverLines.class) {
                    busyMs = asked.number("ms");
                }
            } else {
                if (!commands.containsKey(name)) throw new UnsupportedOperationException("there is no command " + name);
                commands.get(name).run(asked);
            }
            report("did", "do", name);
        } catch (Throwable problem) {
            report("failed", "do", name, "problem", String.valueOf(problem));
        }
    }

    /** As much of JSON as a line has. */
    private static final class Json {
        private static final Pattern TOKEN = Pattern.compile("\\s*([{}\\[\\],:]|\"(?:[^\"\\\\]|\\\\.)*+\"|[^\\s{}\\[\\],:]+)");
        private static final Pattern ESCAPE = Pattern.compile("\\\\(?:u(\\p{XDigit}{4})|(.))");
        private final List<String> tokens = new ArrayList<>();
        private int next;

        Json(String text) {
            Matcher token = TOKEN.matcher(text);
            while (token.lookingAt()) {
                tokens.add(token.group(1));
                token.region(token.end(), text.length());
            }
        }

        Object value() {
            String token = tokens.get(next++);
            switch (token) {
                case "{":
                    Map<String, Object> object = new LinkedHashMap<>();
                    while (!ends("}")) {
                        String name = (String) value();
                        next++;
                        object.put(name, value());
                    }
                    return object;
                case "[":
                    List<Object> list = new ArrayList<>();
                    while (!ends("]")) list.add(value());
                    return list;
                case "true", "false":
                    return token.equals("true");
                case "null":
                    return null;
                default:
                    return token.startsWith("\"") ? text(token) : Double.valueOf(token);
            }
        }

        /** Skip a comma, or the end of an object or list. */
        private boolean ends(String bracket) {
            boolean over = tokens.get(next).equals(bracket);
            if (over || tokens.get(next).equals(",")) next++;
            return over;
        }

        private static String text(String token) {
            return ESCAPE.matcher(token.substring(1, token.length() - 1)).replaceAll(found -> {
                String code = found.group(1);
                String one = code != null ? String.valueOf((char) Integer.parseInt(code, 16)) : switch (found.group(2)) {
                    case "n" -> "\n";
                    case "r" -> "\r";
                    case "t" -> "\t";
                    case "b" -> "\b";
                    case "f" -> "\f";
                    default -> found.group(2);
                };
                return Matcher.quoteReplacement(one);
            });
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> object) {
                List<String> parts = new ArrayList<>();
                object.forEach((name, inner) -> parts.add(write(name) + ":" + write(inner)));
                return "{" + String.join(",", parts) + "}";
            }
            if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
            StringBuilder text = new StringBuilder("\"");
            for (char one : value.toString().toCharArray()) {
                if (one < ' ' || one > '~' || one == '"' || one == '\\') text.append(String.format("\\u%04x", (int) one));
                else text.append(one);
            }
            return text.append('"').toString();
        }
    }
}
