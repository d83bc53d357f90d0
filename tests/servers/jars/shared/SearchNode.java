import java.io.Closeable;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;

/** What nodes of Elasticsearch and of OpenSearch have in common: the command line HOME PORT [setting=value …], and their end. */
final class SearchNode {
    static Path home(String[] words) {
        return Paths.get(words[0]).toAbsolutePath();
    }

    static Map<String, String> settings(String[] words) {
        Map<String, String> settings = new HashMap<>(Map.of(
            "path.home", home(words).toString(), "path.data", home(words).resolve("data").toString(),
            "cluster.name", "sluice-tests", "node.name", "node", "discovery.type", "single-node",
            "network.host", "127.0.0.1", "http.port", words[1], "transport.port", "0",
            "cluster.routing.allocation.disk.threshold_enabled", "false"));
        for (int word = 2; word < words.length; word++) {
            String[] pair = words[word].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        return settings;
    }

    static void run(Closeable node, Callable<?> start) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try { node.close(); } catch (Exception error) { error.printStackTrace(); }
        }));
        start.call();
        System.out.println("READY");
        new CountDownLatch(1).await();
    }
}
