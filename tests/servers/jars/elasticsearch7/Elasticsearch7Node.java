import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;

/** One node of the core and its network plugin: java -cp 'lib/*:classes' Elasticsearch7Node HOME PORT [setting=value …] */
public class Elasticsearch7Node extends Node {
    Elasticsearch7Node(Environment environment) {
        super(environment, List.of(org.elasticsearch.transport.Netty4Plugin.class), true);
    }

    public static void main(String[] words) throws Exception {
        Path home = Paths.get(words[0]).toAbsolutePath();
        Path config = Files.createDirectories(home.resolve("config"));
        Settings.Builder settings = Settings.builder()
            .put("path.home", home.toString()).put("path.data", home.resolve("data").toString())
            .put("cluster.name", "sluice-tests").put("node.name", "node").put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1").put("http.port", words[1]).put("transport.port", "0")
            .put("http.type", "netty4").put("transport.type", "netty4")
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (int word = 2; word < words.length; word++) {
            String[] pair = words[word].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), config, () -> "node");
        Node node = new Elasticsearch7Node(environment);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try { node.close(); } catch (Exception error) { error.printStackTrace(); }
        }));
        node.start();
        System.out.println("READY");
        new CountDownLatch(1).await();
    }
}
